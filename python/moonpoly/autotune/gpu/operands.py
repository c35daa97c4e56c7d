"""Operands on the GPU as tensors: random items, contiguous, described through DLPack."""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np
import tvm_ffi

from moonpoly.autotune.gpu.launch import numpy_dtype, random_items
from moonpoly.gpu_driver import Device
from moonpoly.workload import Workload

_CUDA = 2  # DLPack's device type
_CODES = {"float16": 2, "float32": 2, "bfloat16": 4, "float8_e4m3fn": 10, "int8": 0, "int32": 0}
# Random items repeat after so many bytes.
_BLOCK_BYTES = 16 << 20
_SEED = 3


class _Device(ctypes.Structure):
    _fields_ = (("type", ctypes.c_int), ("id", ctypes.c_int))


class _Type(ctypes.Structure):
    _fields_ = (("code", ctypes.c_uint8), ("bits", ctypes.c_uint8), ("lanes", ctypes.c_uint16))


class _Tensor(ctypes.Structure):
    _fields_ = (
        ("data", ctypes.c_void_p),
        ("device", _Device),
        ("ndim", ctypes.c_int),
        ("dtype", _Type),
        ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("byte_offset", ctypes.c_uint64),
    )


class _Managed(ctypes.Structure):
    _fields_ = (
        ("tensor", _Tensor),
        ("context", ctypes.c_void_p),
        ("deleter", ctypes.CFUNCTYPE(None, ctypes.c_void_p)),
    )


# Descriptions that a consumer still reads, by their addresses.
_described: dict[int, _Managed] = {}
_forget = ctypes.CFUNCTYPE(None, ctypes.c_void_p)(lambda address: _described.pop(address, None))
_capsule = ctypes.pythonapi.PyCapsule_New
_capsule.restype = ctypes.py_object
_capsule.argtypes = (ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p)


class _OnGpu:
    """A matrix at an address of the first GPU, its strides in items."""

    def __init__(
        self, address: int, dtype: np.dtype[Any], shape: tuple[int, int], strides: tuple[int, int]
    ) -> None:
        of_type = _Type(_CODES[dtype.name], dtype.itemsize * 8, 1)
        pair = ctypes.c_int64 * 2
        tensor = _Tensor(address, _Device(_CUDA, 0), 2, of_type, pair(*shape), pair(*strides), 0)
        self._managed = _Managed(tensor, None, _forget)

    def __dlpack__(self, **_options: object) -> Any:
        address = ctypes.addressof(self._managed)
        _described[address] = self._managed
        return _capsule(address, b"dltensor", None)

    def __dlpack_device__(self) -> tuple[int, int]:
        return _CUDA, 0


class Operands:
    """Room on the first GPU for the operands of one product at a time.

    Parameters
    ----------
    workload
        What they hold.
    num_bytes
        Of the largest of them.

    Raises
    ------
    TargetError
        If there is no GPU, or not so much memory.
    """

    def __init__(self, workload: Workload, num_bytes: int) -> None:
        self._item = numpy_dtype(workload.dtype)
        self._output = numpy_dtype(workload.out_dtype)
        device = Device()
        self._a, self._b, self._c = (device.allocate(num_bytes) for _ in range(3))
        rng = np.random.default_rng(_SEED)
        # Different ones: products of a matrix with itself are symmetric, and their sums add up.
        for start in (self._a, self._b):
            count = min(_BLOCK_BYTES, num_bytes) // self._item.itemsize
            block = random_items(rng, count, self._item).tobytes()
            for offset in range(0, num_bytes, len(block)):
                device.write(start + offset, block[: num_bytes - offset])

    def tensors(self, m: int, n: int, k: int) -> tuple[Any, Any, Any]:
        """Return A (m, k), the transpose (k, n) of a B of contiguous rows, and C (m, n)."""
        views = (
            _OnGpu(self._a, self._item, (m, k), (k, 1)),
            _OnGpu(self._b, self._item, (k, n), (1, k)),
            _OnGpu(self._c, self._output, (m, n), (n, 1)),
        )
        a, b, c = map(tvm_ffi.from_dlpack, views)
        return a, b, c
