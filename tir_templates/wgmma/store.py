"""The epilogue of a whole reduction: sums to C, through shared memory where C has their width.

Fragments of the tensor cores are 8 columns wide; staged, a warp writes whole rows of 128 bytes.
"""

from __future__ import annotations

from tvm.script import tirx as T

from .block import thread_again
from .config import BARRIER_WARPGROUP, WARPGROUP, WgmmaConfig
from .copy_rows import copy_rows, over, within
from .shared_memory import STAGED, WGMMA_ROWS
from .store_wide import store_wide

_WARP, _WARP_ROWS = 32, 16
_MATRIX = 8


def store(c: WgmmaConfig):
    """Return an inline function that writes one consumer's sums to C."""
    if c.wide_output:
        return store_wide(c)
    return _store_swapped(c) if c.swapped else _store_rows(c)


def _pack(c: WgmmaConfig):
    """Return an inline that rounds pairs of ``sums`` from ``start`` on to ``count`` registers."""
    convert = {"float16": "cvt.rn.f16x2.f32", "bfloat16": "cvt.rn.bf16x2.f32"}[c.out_dtype]

    @T.inline
    def pack(packed, sums, start, count):
        for r in T.unroll(count):
            first: T.let = start + r * 2
            T.ptx[convert](packed[r], sums[first + 1], sums[first])

    return pack


def _stage(c: WgmmaConfig, size: int, chunk: int, place):
    """Return an inline function that stages a chunk of ``size`` columns of the tensor cores.

    Two groups of eight are staged at a time, and one that is left. ``place`` returns the row and
    column that a thread gives the address of, for columns from ``start`` on.
    """
    pack, per_block = _pack(c), c.columns // 2
    left = c.columns % (2 * _MATRIX) != 0 and (chunk + 1) * size >= c.columns
    last = c.columns - _MATRIX - chunk * size
    how = ".trans" if c.swapped else ""
    two = f"stmatrix.sync.aligned.m8n8.x4{how}.shared.b16"
    one = f"stmatrix.sync.aligned.m8n8.x2{how}.shared.b16"

    @T.inline
    def stage(staged, sums, packed, block, first, thread):
        for pair in T.unroll(size // (2 * _MATRIX)):
            if chunk * size + pair * 16 + 16 <= c.columns:
                pack(packed, sums, block * per_block + chunk * (size // 2) + pair * 8, 4)
                T.ptx[two](
                    staged.ptr_to(place(first, thread, pair * 16, True)),
                    packed[0],
                    packed[1],
                    packed[2],
                    packed[3],
                )
        if left:
            pack(packed, sums, block * per_block + per_block - 4, 2)
            T.ptx[one](staged.ptr_to(place(first, thread, last, False)), packed[0], packed[1])

    return stage


def _store_rows(c: WgmmaConfig):
    """p is m: a warp's 16 rows are its own, no other warp waits."""
    width = min(STAGED, c.columns)
    chunks = -(-c.columns // width)
    blocks_of_rows = c.warpgroup_rows // WGMMA_ROWS

    def place(own, lane, start, both):
        beside = over(lane, 16) * _MATRIX if both else 0
        return [own + within(lane, 16), start + beside]

    copy = copy_rows(c.out_dtype, _WARP_ROWS, width, _WARP)

    def store_chunk(chunk):
        stage = _stage(c, width, chunk, place)

        @T.inline
        def write_chunk(C, staged, sums, packed, at, columns, block, own, lane, m, n, ldc, vector):
            top: T.let = at[0] + block * WGMMA_ROWS + within(own, WGMMA_ROWS)
            T.cuda.warp_sync()
            stage(staged, sums, packed, block, own, lane)
            T.cuda.warp_sync()
            end: T.let = T.min(n, at[1] + columns)
            copy(C, staged, own, top, at[1] + chunk * width, lane, m, end, ldc, vector)

        return write_chunk

    write_chunks = _chunks(store_chunk, chunks, width)

    @T.inline
    def write(C, staged, sums, at, columns, wg, warp, lane, m, n, ldc, vector):
        packed = T.alloc_local([4], "uint32")
        own: T.let = warp * _WARP_ROWS
        for block in T.unroll(blocks_of_rows):
            write_chunks(C, staged, sums, packed, at, columns, block, own, lane, m, n, ldc, vector)

    return write


def _store_swapped(c: WgmmaConfig):
    """p is n: a warpgroup stages 64 columns of C, transposed, and writes rows of them."""
    height = min(STAGED, c.columns)
    chunks = -(-c.columns // height)
    blocks_of_rows = c.warpgroup_rows // WGMMA_ROWS

    def place(first, tid, start, both):
        below = within(over(tid, 16), 2) * _MATRIX if both else 0
        row = first + start + below + within(tid, _MATRIX)
        return [row, over(tid, 32) * _WARP_ROWS + within(over(tid, 8), 2) * _MATRIX]

    copy = copy_rows(c.out_dtype, height, STAGED, WARPGROUP)

    def store_chunk(chunk):
        stage = _stage(c, height, chunk, place)

        @T.inline
        def write_chunk(C, staged, sums, packed, at, columns, block, wg, tid, m, n, ldc, vector):
            T.ptx.bar.sync(T.cast(BARRIER_WARPGROUP + wg, "uint32"), T.uint32(WARPGROUP))
            stage(staged, sums, packed, block, wg * WGMMA_ROWS, tid)
            T.ptx.bar.sync(T.cast(BARRIER_WARPGROUP + wg, "uint32"), T.uint32(WARPGROUP))
            left: T.let = at[0] + block * WGMMA_ROWS
            end: T.let = T.min(m, at[1] + columns)
            copy(C, staged, wg * WGMMA_ROWS, at[1] + chunk * height, left, tid, end, n, ldc, vector)

        return write_chunk

    write_chunks = _chunks(store_chunk, chunks, height)

    @T.inline
    def write(C, staged, sums, at, columns, wg, warp, lane, m, n, ldc, vector):
        packed = T.alloc_local([4], "uint32")
        thread = T.alloc_local([1], "int32")
        thread[0] = thread_again()
        tid: T.let = within(thread[0], WARPGROUP)
        for block in T.unroll(blocks_of_rows):
            write_chunks(C, staged, sums, packed, at, columns, block, wg, tid, m, n, ldc, vector)

    return write


def _chunks(store_chunk, chunks: int, width: int, chunk: int = 0):
    """Return an inline function that writes chunk after chunk, as far as the tile is wide."""
    write_chunk = store_chunk(chunk)
    if chunk + 1 == chunks:
        return write_chunk
    write_others = _chunks(store_chunk, chunks, width, chunk + 1)
    end = (chunk + 1) * width

    @T.inline
    def write(C, staged, sums, packed, at, columns, block, place, thread, m, n, ldc, vector):
        write_chunk(C, staged, sums, packed, at, columns, block, place, thread, m, n, ldc, vector)
        if columns > end:
            write_others(
                C, staged, sums, packed, at, columns, block, place, thread, m, n, ldc, vector
            )

    return write
