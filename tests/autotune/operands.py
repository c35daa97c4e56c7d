"""Operands of a micro-kernel inside guarded memory, in any layout its contract allows."""

from __future__ import annotations

import numpy as np
import tvm_ffi

GUARD = np.float32(-7.25e11)


class Guarded:
    """A strided matrix in memory whose every other element is a guard value.

    ``rows`` x ``columns`` elements at the given strides, ``margin`` guard elements before and
    after; the address of the first is a multiple of 4 bytes and no more.
    """

    def __init__(self, values, strides, margin=37):
        self.shape, self.strides = values.shape, strides
        reach = sum((extent - 1) * step for extent, step in zip(self.shape, strides, strict=True))
        self.memory = np.full(reach + 1 + 2 * margin, GUARD, dtype=np.float32)
        self.margin = margin
        self.view[...] = values

    @property
    def view(self):
        return np.lib.stride_tricks.as_strided(
            self.memory[self.margin :], self.shape, tuple(4 * step for step in self.strides)
        )

    @property
    def tensor(self):
        return tvm_ffi.from_dlpack(self.view)

    def untouched_outside(self):
        """Whether every guard element still is one."""
        inside = np.zeros(self.memory.shape, dtype=bool)
        np.lib.stride_tricks.as_strided(inside[self.margin :], self.shape, self.strides)[...] = True
        return bool(np.all(self.memory[~inside] == GUARD))


def panels(b, lanes):
    """Return B of shape (k, n) as (n / lanes, k, lanes)."""
    k, n = b.shape
    return b.reshape(k, n // lanes, lanes).transpose(1, 0, 2)
