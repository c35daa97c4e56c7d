"""OpenBLAS as NumPy ships it: ``numpy.matmul(out=)``."""

from __future__ import annotations

import ctypes
from pathlib import Path

import numpy as np

from . import MODES, Matrix, Way


def _core_name() -> str:
    """The kernel family that OpenBLAS chose for this CPU, asked from the loaded library."""
    maps = Path("/proc/self/maps")
    if not maps.exists():
        return "unknown"
    for line in maps.read_text().splitlines():
        path = line.split()[-1]
        if "openblas" in path:
            library = ctypes.CDLL(path)
            for symbol in ("scipy_openblas_get_corename64_", "openblas_get_corename"):
                function = getattr(library, symbol, None)
                if function is not None:
                    function.restype = ctypes.c_char_p
                    return str(function().decode())
    return "not OpenBLAS"


class OpenBlas:
    """NumPy's BLAS; its threads are set by the worker's environment."""

    def __init__(self, threads: int) -> None:
        self._threads = threads

    def facts(self) -> dict[str, str]:
        blas = np.show_config(mode="dicts")["Build Dependencies"]["blas"]
        return {
            "version": f"numpy {np.__version__}, {blas['name']} {blas['version']}",
            "kernels": _core_name(),
            "threads": str(self._threads),
        }

    def ways(self, a: Matrix, b: Matrix, c: Matrix) -> list[Way]:
        matmul = np.matmul
        return [Way("matmul", MODES, lambda: matmul(a, b, out=c), lambda _: c)]


def create(threads: int) -> OpenBlas:
    """Create the contender."""
    return OpenBlas(threads)
