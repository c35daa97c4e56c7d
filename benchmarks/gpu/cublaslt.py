"""cuBLASLt through ctypes: its heuristic's choices for C (m, n) = A (m, k) · B (n, k)ᵀ."""

from __future__ import annotations

import ctypes
import importlib.util
from ctypes import byref, c_float, c_int, c_size_t, c_uint64, c_void_p
from pathlib import Path

from ..peer import BenchmarkError
from .types import Types

# CUDA's numbers of element types; how sums are made of some, and what scales them.
_TYPES = {"float16": 2, "bfloat16": 14, "tf32": 0, "float32": 0, "int8": 3, "int32": 10}
_TYPES |= {"float8_e4m3fn": 28}
_COMPUTE_F32, _COMPUTE_TF32, _COMPUTE_I32 = 68, 77, 72
_TRANS_A, _TRANS_B, _FAST_SUMS = 3, 4, 25
_NOT_TRANSPOSED, _TRANSPOSED = 0, 1
_MAX_WORKSPACE = 1
WORKSPACE_BYTES = 32 << 20


class Choice(ctypes.Structure):
    """One algorithm that the heuristic proposes, best first."""

    _fields_ = (
        ("algorithm", c_uint64 * 8),
        ("workspace_bytes", c_size_t),
        ("state", c_int),
        ("waves", c_float),
        ("reserved", c_int * 4),
    )


def _library() -> ctypes.CDLL:
    places: list[Path] = []
    if spec := importlib.util.find_spec("nvidia"):
        for folder in spec.submodule_search_locations or ():
            places += sorted(Path(folder).glob("*/lib/libcublasLt.so.*"))
    for name in (*map(str, places), "libcublasLt.so.13", "libcublasLt.so.12"):
        try:
            return ctypes.CDLL(name)
        except OSError:
            continue
    raise BenchmarkError("cuBLASLt is not installed; install torch with CUDA, which brings it")


class CublasLt:
    """A handle with its workspace on the GPU."""

    def __init__(self, workspace: int) -> None:
        self._lib = _library()
        self._workspace = workspace
        self._handle = c_void_p()
        self._call("cublasLtCreate", byref(self._handle))
        self._preference = c_void_p()
        self._call("cublasLtMatmulPreferenceCreate", byref(self._preference))
        limit = c_uint64(WORKSPACE_BYTES)
        self._call(
            "cublasLtMatmulPreferenceSetAttribute",
            self._preference,
            _MAX_WORKSPACE,
            byref(limit),
            c_size_t(8),
        )

    def version(self) -> str:
        """The library's version, such as ``"13.1.0"``."""
        self._lib.cublasLtGetVersion.restype = c_size_t
        number = int(self._lib.cublasLtGetVersion())
        return f"{number // 10000}.{number // 100 % 100}.{number % 100}"

    def product(self, m: int, n: int, k: int, types: Types) -> Product:
        """Describe one product with contiguous operands."""
        return Product(self, m, n, k, types)

    def _call(self, name: str, *arguments: object) -> None:
        status = getattr(self._lib, name)(*arguments)
        if status != 0:
            raise BenchmarkError(f"{name} failed with status {status}")


class Product:
    """One problem as cuBLASLt sees it: column by column, so with the operands exchanged."""

    def __init__(self, library: CublasLt, m: int, n: int, k: int, types: Types) -> None:
        self._library = library
        self._description = c_void_p()
        self._made: list[c_void_p] = []
        compute = {"tf32": _COMPUTE_TF32, "int8": _COMPUTE_I32}.get(types.dtype, _COMPUTE_F32)
        scale = _TYPES["int32" if types.exact else "float32"]
        library._call("cublasLtMatmulDescCreate", byref(self._description), compute, scale)
        if types.dtype == "float8_e4m3fn":
            library._call(
                "cublasLtMatmulDescSetAttribute",
                self._description,
                _FAST_SUMS,
                byref(ctypes.c_int8(1)),
                c_size_t(1),
            )
        for key, value in ((_TRANS_A, _TRANSPOSED), (_TRANS_B, _NOT_TRANSPOSED)):
            library._call(
                "cublasLtMatmulDescSetAttribute",
                self._description,
                key,
                byref(c_int(value)),
                c_size_t(4),
            )
        item, output = _TYPES[types.dtype], _TYPES[types.out_dtype]
        self._b, self._a = self._layout(item, k, n, k), self._layout(item, k, m, k)
        self._c = self._layout(output, n, m, n)
        number = c_int if types.exact else c_float
        self._one, self._zero = number(1), number(0)

    def _layout(self, dtype: int, rows: int, columns: int, stride: int) -> c_void_p:
        layout = c_void_p()
        self._library._call(
            "cublasLtMatrixLayoutCreate",
            byref(layout),
            dtype,
            c_uint64(rows),
            c_uint64(columns),
            ctypes.c_int64(stride),
        )
        self._made.append(layout)
        return layout

    def choices(self, count: int) -> list[Choice]:
        """Return up to `count` algorithms in the heuristic's order."""
        found = (Choice * count)()
        number = c_int()
        self._library._call(
            "cublasLtMatmulAlgoGetHeuristic",
            self._library._handle,
            self._description,
            self._b,
            self._a,
            self._c,
            self._c,
            self._library._preference,
            count,
            found,
            byref(number),
        )
        return [choice for choice in found[: number.value] if choice.state == 0]

    def run(self, choice: Choice, a: int, b: int, c: int, stream: int) -> None:
        """Enqueue the product of the operands at these addresses."""
        self._library._call(
            "cublasLtMatmul",
            self._library._handle,
            self._description,
            byref(self._one),
            c_void_p(b),
            self._b,
            c_void_p(a),
            self._a,
            byref(self._zero),
            c_void_p(c),
            self._c,
            c_void_p(c),
            self._c,
            byref(choice),
            c_void_p(self._library._workspace),
            c_size_t(WORKSPACE_BYTES),
            c_void_p(stream),
        )

    def close(self) -> None:
        """Give the descriptions back."""
        for layout in self._made:
            self._library._call("cublasLtMatrixLayoutDestroy", layout)
        self._library._call("cublasLtMatmulDescDestroy", self._description)
