"""One module per contender; each runs inside a worker process of its own.

A contender module defines ``create(threads: int) -> Contender``. Nothing but the worker imports
these modules, so a library is loaded only in the process that measures it.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol, cast

import numpy as np
import numpy.typing as npt

Matrix = npt.NDArray[np.float32]
Array = npt.NDArray[Any]
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
        Gives the (m, n) float32 output of the last call from what that call returned.
    """

    name: str
    modes: tuple[str, ...]
    call: Callable[[], object]
    result: Callable[[Any], Matrix]


class Contender(Protocol):
    """A library under measurement."""

    def facts(self) -> dict[str, str]:
        """Version and what the library says about its kernels and threads."""

    def ways(self, a: Matrix, b: Matrix, c: Matrix) -> list[Way]:
        """Prepare every way of computing ``c = a @ b`` for a (m, k), b (k, n), c (m, n)."""


GEMM_CONTENDERS = ("moonpoly", "onnxruntime", "onednn", "openblas")
MODEL_CONTENDERS = ("moonpoly", "onnxruntime")
# ONNX Runtime without its optimisations: what a model means.
MODEL_REFERENCE = "onnxruntime_unoptimized"


class ModelContender(Protocol):
    """A way of running whole models under measurement."""

    def facts(self) -> dict[str, str]:
        """Version and threads."""

    def load(self, path: str) -> None:
        """Load a model file, ready to be bound."""

    def bind(self, inputs: dict[str, Array]) -> BoundModel:
        """Fix the inputs of the following calls."""


@dataclass(frozen=True)
class BoundModel:
    """A loaded model with its inputs: `call` runs it, `outputs` gives the last outputs by name."""

    call: Callable[[], object]
    outputs: Callable[[], dict[str, Array]]


def create_model(name: str, threads: int) -> ModelContender:
    """Load the contender `name` for whole models, set to `threads` threads.

    Raises
    ------
    ImportError
        If the library behind it is not installed.
    """
    module = importlib.import_module(f"{__name__}.{name}_model")
    return cast(ModelContender, module.create(threads))


def create(name: str, threads: int) -> Contender:
    """Load the contender `name`, set to `threads` threads.

    Raises
    ------
    ImportError
        If the library behind it is not installed.
    """
    module = importlib.import_module(f"{__name__}.{name}_gemm")
    return cast(Contender, module.create(threads))
