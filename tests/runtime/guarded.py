"""Arrays that end or begin at a page that can't be touched: a stray access ends the process."""

from __future__ import annotations

import ctypes
import mmap

import numpy as np

_LIBC = ctypes.CDLL(None, use_errno=True)
_LIBC.mprotect.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
_PROT_NONE = 0
_PAGE = mmap.PAGESIZE


def guarded(shape: tuple[int, ...], *, at_end: bool = True) -> np.ndarray:
    """Return float32 of ``shape``, flush with the forbidden page after it, or before it."""
    count = int(np.prod(shape, dtype=np.int64))
    num_bytes = count * 4
    pages = -(-max(num_bytes, 1) // _PAGE)
    memory = mmap.mmap(-1, (pages + 2) * _PAGE)
    base = ctypes.addressof(ctypes.c_char.from_buffer(memory))
    for guard in (base, base + (pages + 1) * _PAGE):
        if _LIBC.mprotect(guard, _PAGE, _PROT_NONE) != 0:
            raise OSError(ctypes.get_errno(), "mprotect")
    start = _PAGE + (pages * _PAGE - num_bytes if at_end else 0)
    return np.frombuffer(memory, dtype=np.float32, count=count, offset=start).reshape(shape)
