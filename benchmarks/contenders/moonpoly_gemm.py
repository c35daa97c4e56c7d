"""MoonPoly's stand-alone product with the plan that its selector makes."""

from __future__ import annotations

import tvm_ffi

from moonpoly import _ffi_api

from ..our_kernels import ROW, constant_b_mode, load_kernels, prepare_b
from . import CONSTANT, DYNAMIC, Matrix, Way


class MoonPoly:
    """The host's artifact; B laid out beforehand (constant) or row-major as it comes (dynamic)."""

    def __init__(self, threads: int) -> None:
        self._kernels = load_kernels(threads)
        self._threads = threads

    def facts(self) -> dict[str, str]:
        return self._kernels.describe() | {"threads": str(self._threads)}

    def _way(self, name: str, mode: str, b_mode: int, a: Matrix, b: Matrix, c: Matrix) -> Way:
        handle, gemm = self._kernels.handle, _ffi_api.gemm
        ta, tc = tvm_ffi.from_dlpack(a), tvm_ffi.from_dlpack(c)
        tb = prepare_b(self._kernels, b, b_mode)
        return Way(name, (mode,), lambda: gemm(handle, ta, tb, tc, b_mode, False), lambda _: c)

    def ways(self, a: Matrix, b: Matrix, c: Matrix) -> list[Way]:
        return [
            self._way("laid_out", CONSTANT, constant_b_mode(self._kernels, b), a, b, c),
            self._way("row_major", DYNAMIC, ROW, a, b, c),
        ]


def create(threads: int) -> MoonPoly:
    """Create the contender."""
    return MoonPoly(threads)
