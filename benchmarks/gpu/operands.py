"""Operands on the GPU: views of one pool of random data, as many sets as a measurement asks for."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ..shape_lists import Problem

# More than any problem of the lists needs, and several times what a cache holds.
_POOL_BYTES = 6 << 30
_ALIGN_ITEMS = 128
_ITEM_BYTES = 2
# Bytes that calls must touch between two uses of one set for it to be cold.
COLD_BYTES = 180e6
_MOST_SETS = 1000
# Entries of a result that are compared with float64: as many rows as columns.
_CHECKED = 48


@dataclass(frozen=True)
class OperandSet:
    """A (m, k), B (n, k) and C (m, n), contiguous, as torch tensors."""

    a: Any
    b: Any
    c: Any


class Pool:
    """Random values between -1 and 1, from which operands are cut, and room for results."""

    def __init__(self, dtype: str, seed: int) -> None:
        import torch

        self.dtype = dtype
        generator = torch.Generator(device="cuda").manual_seed(seed)
        count = _POOL_BYTES // _ITEM_BYTES
        self._torch = torch
        self._data = torch.empty(count, dtype=getattr(torch, dtype), device="cuda")
        for part in self._data.split(1 << 28):
            part.uniform_(-1, 1, generator=generator)
        self._results = torch.empty(count // 2, dtype=self._data.dtype, device="cuda")

    def sets(self, problem: Problem, cold: bool) -> list[OperandSet]:
        """Return one set, or so many that each is out of the cache when its turn comes."""
        m, n, k = problem.m, problem.n, problem.k
        used = _ITEM_BYTES * (m * k + n * k + m * n)
        wanted = min(_MOST_SETS, max(2, round(COLD_BYTES / used))) if cold else 1
        out = []
        at = result_at = 0
        for _ in range(wanted):
            a, at = self._cut(self._data, at, m, k)
            b, at = self._cut(self._data, at, n, k)
            c, result_at = self._cut(self._results, result_at, m, n)
            out.append(OperandSet(a, b, c))
        return out

    def error(self, operands: OperandSet, seed: int) -> float:
        """Return the largest error of sampled entries beyond rounding, relative to |A|·|B|."""
        torch = self._torch
        generator = torch.Generator().manual_seed(seed)
        m, n = operands.c.shape
        rows = torch.randint(m, (_CHECKED,), generator=generator).cuda()
        columns = torch.randint(n, (_CHECKED,), generator=generator).cuda()
        # The last row and column are where a tile is ragged.
        rows[0], columns[0] = m - 1, n - 1
        a, b = operands.a[rows].double(), operands.b[columns].double()
        got = operands.c[rows][:, columns].double()
        exact, size = a @ b.T, a.abs() @ b.abs().T
        # Half a unit in the last place, which below the smallest normal number stays what it is.
        unit, least = (2.0**-11, 2.0**-25) if self.dtype == "float16" else (2.0**-8, 0.0)
        beyond = ((got - exact).abs() - unit * exact.abs() - least) / size.clamp_min(1e-30)
        return float(beyond.nan_to_num(nan=float("inf")).max())

    def _cut(self, source: Any, at: int, rows: int, columns: int) -> tuple[Any, int]:
        count = rows * columns
        at = -(-at // _ALIGN_ITEMS) * _ALIGN_ITEMS
        if at + count > source.numel():
            at = 0
        return source[at : at + count].view(rows, columns), at + count
