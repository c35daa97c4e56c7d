"""The epilogue of a whole reduction where items of C are 32 bits wide: sums go straight to C."""

from __future__ import annotations

from tvm.script import tirx as T

from .config import WgmmaConfig
from .shared_memory import WGMMA_ROWS

_WARP_ROWS = 16
_MATRIX = 8


def store_wide(c: WgmmaConfig):
    """Straight from the registers: a quad of lanes (swapped: a column of them) writes a sector.

    Items are counted in registers that are stepped on: sums leave no room for many addresses.
    """
    return _store_wide_swapped(c) if c.swapped else _store_wide_rows(c)


def _store_wide_rows(c: WgmmaConfig):
    blocks_of_rows = c.warpgroup_rows // WGMMA_ROWS
    per_block = c.columns // 2
    store_pair = {"float32": "st.global.v2.f32", "uint32": "st.global.v2.u32"}[c.item.sums]

    @T.inline
    def write(C, staged, sums, at, columns, wg, warp, lane, m, n, ldc, vector):
        row = T.alloc_local([1], "int32")
        left = T.alloc_local([1], "int32")
        item = T.alloc_local([1], "int64")
        row[0] = at[0] + T.truncmod(warp, 4) * _WARP_ROWS + T.truncdiv(lane, 4)
        left[0] = T.min(n, at[1] + columns) - at[1] - T.truncmod(lane, 4) * 2
        item[0] = T.cast(row[0], "int64") * ldc + (at[1] + T.truncmod(lane, 4) * 2)
        for half in T.unroll(2 * blocks_of_rows):
            if row[0] < m:
                for group in T.unroll(c.columns // _MATRIX):
                    first: T.let = T.truncdiv(half, 2) * per_block + group * 4 + half % 2 * 2
                    # Where pairs are aligned, rows end at one.
                    if group * 8 < left[0]:
                        if vector > 1:
                            T.ptx[store_pair](
                                C.ptr_to([item[0] + group * 8]), sums[first], sums[first + 1]
                            )
                        else:
                            C[item[0] + group * 8] = sums[first]
                            if group * 8 + 1 < left[0]:
                                C[item[0] + (group * 8 + 1)] = sums[first + 1]
            # The rows of a fragment are 8 apart; those of the next start where 64 more do.
            row[0] = row[0] + (8 if half % 2 == 0 else WGMMA_ROWS - 8)
            item[0] = item[0] + T.cast(ldc, "int64") * (8 if half % 2 == 0 else WGMMA_ROWS - 8)

    return write


def _store_wide_swapped(c: WgmmaConfig):
    blocks_of_rows = c.warpgroup_rows // WGMMA_ROWS
    per_block = c.columns // 2

    @T.inline
    def write(C, staged, sums, at, columns, wg, warp, lane, m, n, ldc, vector):
        column = T.alloc_local([1], "int32")
        left = T.alloc_local([1], "int32")
        item = T.alloc_local([1], "int64")
        left[0] = T.min(m, at[1] + columns) - at[1] - T.truncmod(lane, 4) * 2
        for half in T.unroll(2 * blocks_of_rows):
            column[0] = (
                at[0]
                + T.truncdiv(half, 2) * WGMMA_ROWS
                + half % 2 * 8
                + T.truncmod(warp, 4) * _WARP_ROWS
                + T.truncdiv(lane, 4)
            )
            item[0] = T.cast(at[1] + T.truncmod(lane, 4) * 2, "int64") * ldc + column[0]
            if column[0] < n:
                for group in T.unroll(c.columns // _MATRIX):
                    first: T.let = T.truncdiv(half, 2) * per_block + group * 4 + half % 2 * 2
                    if group * 8 < left[0]:
                        C[item[0]] = sums[first]
                    if group * 8 + 1 < left[0]:
                        C[item[0] + ldc] = sums[first + 1]
                    item[0] = item[0] + T.cast(ldc, "int64") * 8

    return write
