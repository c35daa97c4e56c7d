"""Operands on the GPU: views of one pool of random data, as many sets as a measurement asks for."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ..shape_lists import Problem
from .types import Types

# More than any problem of the lists needs, and several times what a cache holds.
_POOL_BYTES = 6 << 30
_ALIGN_BYTES = 256
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

    def __init__(self, types: Types, seed: int) -> None:
        import torch

        self.types = types
        generator = torch.Generator(device="cuda").manual_seed(seed)
        self._torch = torch
        self._data = types.empty(_POOL_BYTES // types.item_bytes)
        for part in self._data.split(1 << 28):
            types.fill(part, generator)
        self._results = types.empty(_POOL_BYTES // 2 // types.out_bytes, output=True)

    def sets(self, problem: Problem, cold: bool) -> list[OperandSet]:
        """Return one set, or so many that each is out of the cache when its turn comes."""
        m, n, k = problem.m, problem.n, problem.k
        used = self.types.item_bytes * (m * k + n * k) + self.types.out_bytes * m * n
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
        unit, least = self.types.rounding
        beyond = ((got - exact).abs() - unit * exact.abs() - least) / size.clamp_min(1e-30)
        return float(beyond.nan_to_num(nan=float("inf")).max())

    def _cut(self, source: Any, at: int, rows: int, columns: int) -> tuple[Any, int]:
        count = rows * columns
        align = _ALIGN_BYTES // source.element_size()
        at = -(-at // align) * align
        if at + count > source.numel():
            at = 0
        return source[at : at + count].view(rows, columns), at + count
