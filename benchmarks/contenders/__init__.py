"""One module per contender; each runs inside a worker process of its own.

A contender module defines ``create(threads: int) -> Contender``. Nothing but the worker imports
these modules, so a library is loaded only in the process that measures it.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol, cast

import numpy as np
import numpy.typing as npt

Matrix = npt.NDArray[np.float32]
CONSTANT = "constant"
DYNAMIC = "dynamic"
MODES = (CONSTANT, DYNAMIC)


@dataclass(frozen=True)
class Way:
    """One public way of calling a library for C = A·B.

    Attributes
    ----------
    name
        Short name, unique within the contender.
    modes
        Which of `MODES` the way serves: a call that takes B as it is serves both, one that relies
        on B packed beforehand serves the constant mode only.
    call
        Runs the problem once.
    result
        Gives the (m, n) float32 output of the last call.
    """

    name: str
    modes: tuple[str, ...]
    call: Callable[[], object]
    result: Callable[[], Matrix]


class Contender(Protocol):
    """A library under measurement."""

    def facts(self) -> dict[str, str]:
        """Version and what the library says about its kernels and threads."""

    def ways(self, a: Matrix, b: Matrix, c: Matrix) -> list[Way]:
        """Prepare every way of computing ``c = a @ b`` for a (m, k), b (k, n), c (m, n)."""


MODULES = {
    "moonpoly": "moonpoly",
    "onnxruntime": "onnxruntime",
    "onednn": "onednn",
    "openblas": "openblas",
}


def create(name: str, threads: int) -> Contender:
    """Load the contender `name`, set to `threads` threads.

    Raises
    ------
    ImportError
        If the library behind it is not installed.
    """
    module = importlib.import_module(f"{__name__}.{MODULES[name]}_gemm")
    return cast(Contender, module.create(threads))
