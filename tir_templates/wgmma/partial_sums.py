"""A block's part of a cut reduction: sums in shared memory, as rows of C, where the ring was."""

from __future__ import annotations

import tvm
from tvm.script import tirx as T

from .block import thread_again
from .config import WARPGROUP, WgmmaConfig
from .shared_memory import WGMMA_ROWS

# How instructions that move sums name their type.
WORDS = {"float32": "f32", "uint32": "u32"}


def place(c: WgmmaConfig, row, column):
    """Return where an item of the tile lies among the partial sums."""
    return row * c.sum_pitch + column


def stage_sums(c: WgmmaConfig):
    """Return an inline function that writes one consumer's sums to shared memory, as rows of C.

    It writes no more than the tile's own columns: a launch may have no memory behind them.
    """
    write_columns = _stage_columns(c, sorted(c.widths) or [c.columns])

    @T.inline
    def write(partial, sums, columns):
        thread = T.alloc_local([1], "int32")
        thread[0] = thread_again()
        warp: T.let = T.truncdiv(thread[0], 32)
        lane: T.let = T.truncmod(thread[0], 32)
        wg: T.let = T.truncdiv(thread[0], WARPGROUP)
        write_columns(partial, sums, columns, warp, lane, wg)

    return write


def _stage_columns(c: WgmmaConfig, widths: list[int], start: int = 0):
    """Return an inline function that goes on from width to width, as far as the tile is wide."""
    write_first = _stage_groups(c, start // 8, widths[0] // 8)
    if len(widths) == 1:
        return write_first
    write_others = _stage_columns(c, widths[1:], widths[0])
    end = widths[0]

    @T.inline
    def write(partial, sums, columns, warp, lane, wg):
        write_first(partial, sums, columns, warp, lane, wg)
        if columns > end:
            write_others(partial, sums, columns, warp, lane, wg)

    return write


def _stage_groups(c: WgmmaConfig, first: int, end: int):
    """Return an inline function that writes some groups of eight columns."""
    blocks_of_rows = c.warpgroup_rows // WGMMA_ROWS
    per_block = c.columns // 2
    store_pair = f"st.shared.v2.{WORDS[c.item.sums]}"

    @T.inline
    def write(partial, sums, columns, warp, lane, wg):
        for block in T.unroll(blocks_of_rows):
            for half in T.unroll(2):
                p: T.let = (
                    wg * c.warpgroup_rows
                    + block * WGMMA_ROWS
                    + T.truncmod(warp, 4) * 16
                    + half * 8
                    + T.truncdiv(lane, 4)
                )
                for group in T.unroll(first, end):
                    if not c.swapped:
                        T.ptx[store_pair](
                            partial.ptr_to([place(c, p, group * 8 + T.truncmod(lane, 4) * 2)]),
                            sums[block * per_block + group * 4 + half * 2],
                            sums[block * per_block + group * 4 + half * 2 + 1],
                        )
                    else:
                        for i in T.unroll(2):
                            q: T.let = group * 8 + T.truncmod(lane, 4) * 2 + i
                            partial[place(c, q, p)] = sums[
                                block * per_block + group * 4 + half * 2 + i
                            ]

    return write


def clear_sums(c: WgmmaConfig):
    """Return an inline function that writes zeros where the sums of a swapped tile lie."""
    threads = c.consumer_threads
    zero = tvm.tirx.const(0, c.item.sums)

    @T.inline
    def write(partial, columns, tx):
        count: T.let = columns * c.sum_pitch
        for i in T.serial(T.truncdiv(count + threads - 1, threads)):
            if i * threads + tx < count:
                partial[i * threads + tx] = zero

    return write
