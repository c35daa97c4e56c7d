"""Arrays to the VM and back, of types that NumPy doesn't pass through DLPack as well.

bfloat16 and the 8-bit floats are ml_dtypes' in NumPy. Their bits travel as unsigned integers.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np
import tvm_ffi

_BITS = {1: "uint8", 2: "uint16"}


@lru_cache(maxsize=1)
def _view() -> Any:
    return tvm_ffi.get_global_func("runtime.TVMTensorCreateView")


def lend(array: np.ndarray) -> np.ndarray | tvm_ffi.Tensor:
    """Return what the VM takes for ``array``, in the same memory."""
    if array.dtype.isbuiltin != 2:  # registered with NumPy by an extension
        return array
    bits = tvm_ffi.from_dlpack(array.view(np.dtype(_BITS[array.dtype.itemsize])))
    return _view()(bits, bits.shape, tvm_ffi.dtype(array.dtype.name), 0)


def borrow(tensor: tvm_ffi.Tensor) -> np.ndarray:
    """Return a tensor of the VM as an array, in the same memory."""
    name = str(tensor.dtype)
    if not name.startswith(("bfloat16", "float8")):
        return np.from_dlpack(tensor)
    import ml_dtypes

    dtype: np.dtype[Any] = np.dtype(getattr(ml_dtypes, name))
    bits = _view()(tensor, tensor.shape, tvm_ffi.dtype(_BITS[dtype.itemsize]), 0)
    return np.from_dlpack(bits).view(dtype)
