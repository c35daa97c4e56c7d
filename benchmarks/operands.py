"""Operands of a matrix product, cut from two large blocks that every shape shares.

Fresh arrays per shape would spend most of a long benchmark on page faults. The blocks are advised
to use huge pages, as NumPy's own large arrays are, so all contenders read and write the same kind
of memory.
"""

from __future__ import annotations

import mmap
from typing import Any

import numpy as np
import numpy.typing as npt

_ALIGN_BYTES = 64
_ITEM_BYTES = 4
_RESERVE_STEP_BYTES = 1 << 26
_KEPT_BYTES = 1 << 29

Matrix = npt.NDArray[np.float32]

# Its length is prime, so that no row length makes the rows of a matrix equal.
_PATTERN: Matrix = np.random.default_rng(0).uniform(-1.0, 1.0, 1_000_003).astype(np.float32)


def _aligned(num_bytes: int) -> int:
    return -(-num_bytes // _ALIGN_BYTES) * _ALIGN_BYTES


class _Block:
    """Anonymous memory on huge pages where the system grants them; filled as far as it is used."""

    def __init__(self, fill: bool, reserve_bytes: int) -> None:
        self._fill = fill
        self._reserve(reserve_bytes)

    def _reserve(self, num_bytes: int) -> None:
        size = -(-max(num_bytes, 1) // _RESERVE_STEP_BYTES) * _RESERVE_STEP_BYTES
        self._memory = mmap.mmap(-1, size)
        if hasattr(mmap, "MADV_HUGEPAGE"):
            self._memory.madvise(mmap.MADV_HUGEPAGE)
        self._floats: Matrix = np.frombuffer(self._memory, np.float32)
        self._filled = 0

    def floats(self, num_bytes: int) -> Matrix:
        """A float32 view of at least `num_bytes`."""
        if self._floats.nbytes < num_bytes:
            self._reserve(num_bytes)
        self._release_beyond(num_bytes)
        while self._filled * _ITEM_BYTES < num_bytes:
            part = self._floats[self._filled : self._filled + _PATTERN.size]
            part[:] = _PATTERN[: part.size] if self._fill else 0.0
            self._filled += part.size
        return self._floats

    def _release_beyond(self, num_bytes: int) -> None:
        """Give back what only an exceptionally large shape needed: each contender holds a block."""
        kept = max(num_bytes, _KEPT_BYTES) // _PATTERN.nbytes + 1
        kept = min(kept * _PATTERN.size, self._filled)
        start = -(-kept * _ITEM_BYTES // mmap.PAGESIZE) * mmap.PAGESIZE
        if start < self._filled * _ITEM_BYTES and hasattr(mmap, "MADV_DONTNEED"):
            self._memory.madvise(mmap.MADV_DONTNEED, start)
            self._filled = kept


class Operands:
    """Gives A (m, k), B (k, n) filled with uniform [-1, 1) float32 values, and C (m, n).

    Parameters
    ----------
    input_bytes, output_bytes
        What the largest shape needs, if known: address space is set aside once.
    """

    def __init__(self, input_bytes: int = 0, output_bytes: int = 0) -> None:
        self._inputs = _Block(True, input_bytes)
        self._outputs = _Block(False, output_bytes)

    def __call__(self, m: int, n: int, k: int) -> tuple[Matrix, Matrix, Matrix]:
        """Return row-major, 64-byte aligned views; those of earlier calls lose their meaning."""
        b_start = _aligned(m * k * _ITEM_BYTES)
        inputs = self._inputs.floats(b_start + n * k * _ITEM_BYTES)
        outputs = self._outputs.floats(m * n * _ITEM_BYTES)
        first = b_start // _ITEM_BYTES
        return (
            inputs[: m * k].reshape(m, k),
            inputs[first : first + k * n].reshape(k, n),
            outputs[: m * n].reshape(m, n),
        )


def worst_error(a: Matrix, b: Matrix, c: Matrix, num_entries: int = 32, seed: int = 0) -> float:
    """Largest error of sampled entries of ``c`` against float64, relative to the sum of |a||b|.

    The scale is the one that bounds the rounding of any summation order, so a correct float32
    product stays below ``k * 2**-24``, and far below in practice.
    """
    rng = np.random.default_rng(seed)
    rows = rng.integers(0, a.shape[0], num_entries)
    columns = rng.integers(0, b.shape[1], num_entries)
    left = a[rows].astype(np.float64)
    right = b[:, columns].T.astype(np.float64)
    exact = np.einsum("ek,ek->e", left, right)
    scale = np.einsum("ek,ek->e", np.abs(left), np.abs(right))
    error = np.abs(c[rows, columns] - exact) / np.maximum(scale, np.finfo(np.float32).tiny)
    return float(error.max())


def aligned_copy(array: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Copy to C-contiguous memory on a 64-byte boundary, which runtimes read without a copy."""
    block = np.empty(array.nbytes + _ALIGN_BYTES, np.uint8)
    start = -block.ctypes.data % _ALIGN_BYTES
    copy = block[start : start + array.nbytes].view(array.dtype).reshape(array.shape)
    copy[...] = array
    return copy
