"""One step of a warp: fragments out of shared memory, and their products."""

from __future__ import annotations

from tvm.script import tirx as T

from ..items import ROW_BYTES
from .config import (
    CHUNK_BYTES,
    MMA_BYTES,
    MMA_COLUMNS,
    MMA_ROWS,
    MmaConfig,
)

_LOAD = "ldmatrix.sync.aligned.m8n8.x4.shared.b16"
# What one ldmatrix brings of each operand: 16 rows of A, or 16 columns of B in two halves.
_PAIR = 2 * MMA_COLUMNS


def multiply(c: MmaConfig):
    """Return an inline function that adds the products of one slot to ``sums``.

    ``top`` and ``left`` are the first row and column of the warp within the tile.
    """
    instruction, rounded = c.item.mma, c.dtype == "tf32"
    row_blocks, pairs = c.warp_rows // MMA_ROWS, c.warp_columns // _PAIR
    column_blocks = 2 * pairs

    @T.inline
    def fragment(smem, registers, at, row, chunk):
        T.ptx[_LOAD](
            registers[at],
            registers[at + 1],
            registers[at + 2],
            registers[at + 3],
            smem.ptr_to(
                [row * ROW_BYTES + T.bitwise_xor(chunk, T.bitwise_and(row, 7)) * CHUNK_BYTES]
            ),
        )
        if rounded:
            for i in T.unroll(4):
                T.ptx["cvt.rna.tf32.f32"](
                    registers[at + i], T.reinterpret("float32", registers[at + i])
                )

    @T.inline
    def run(smem, slot, sums, top, left, lane):
        a = T.alloc_local([4 * row_blocks], "uint32")
        b = T.alloc_local([4 * pairs], "uint32")
        # Rows of a slot are counted from the start of shared memory: slots are whole rows of eight.
        first: T.let = slot * (c.um + c.un)
        for part in T.unroll(ROW_BYTES // MMA_BYTES):
            for i in T.unroll(row_blocks):
                fragment(
                    smem,
                    a,
                    4 * i,
                    first + top + i * MMA_ROWS + T.truncmod(lane, 16),
                    2 * part + T.truncdiv(lane, 16),
                )
            for j in T.unroll(pairs):
                fragment(
                    smem,
                    b,
                    4 * j,
                    first
                    + c.um
                    + left
                    + j * _PAIR
                    + T.truncmod(lane, 8)
                    + T.truncdiv(lane, 16) * MMA_COLUMNS,
                    2 * part + T.truncmod(T.truncdiv(lane, 8), 2),
                )
            for i in T.unroll(row_blocks):
                for j in T.unroll(column_blocks):
                    T.ptx[instruction](
                        *[sums[(i * column_blocks + j) * 4 + r] for r in range(4)],
                        *[a[4 * i + r] for r in range(4)],
                        *[b[2 * j + r] for r in range(2)],
                        *[sums[(i * column_blocks + j) * 4 + r] for r in range(4)],
                    )

    return run
