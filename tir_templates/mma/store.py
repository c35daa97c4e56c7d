"""The epilogue: a thread's sums to C, in pairs where C has their alignment."""

from __future__ import annotations

from tvm.script import tirx as T

from .config import MMA_COLUMNS, MMA_ROWS, MmaConfig

_CONVERT = {"float16": "cvt.rn.f16x2.f32", "bfloat16": "cvt.rn.bf16x2.f32"}


def store(c: MmaConfig):
    """Return an inline function that writes a warp's sums to C, from its row and column on."""
    row_blocks, column_blocks = c.warp_rows // MMA_ROWS, c.warp_columns // MMA_COLUMNS
    convert = _CONVERT.get(c.out_dtype, "")
    pair = "f32" if c.item.sums == "float32" else "u32"
    out = c.stored_dtype

    @T.inline
    def write(C, sums, top, left, lane, m, n, ldc, vector):
        packed = T.alloc_local([1], "uint32")
        for i in T.unroll(row_blocks):
            for half in T.unroll(2):
                p: T.let = top + i * MMA_ROWS + half * 8 + T.truncdiv(lane, 4)
                for j in T.unroll(column_blocks):
                    q: T.let = left + j * MMA_COLUMNS + T.truncmod(lane, 4) * 2
                    first: T.let = (i * column_blocks + j) * 4 + half * 2
                    if p < m and q < n:
                        # Where pairs are aligned, rows end at one.
                        if vector > 1:
                            if c.wide_output:
                                T.ptx[f"st.global.v2.{pair}"](
                                    C.ptr_to([T.cast(p, "int64") * ldc + q]),
                                    sums[first],
                                    sums[first + 1],
                                )
                            else:
                                T.ptx[convert](packed[0], sums[first + 1], sums[first])
                                T.ptx["st.global.b32"](
                                    C.ptr_to([T.cast(p, "int64") * ldc + q]), packed[0]
                                )
                        else:
                            C[T.cast(p, "int64") * ldc + q] = T.cast(sums[first], out)
                            if q + 1 < n:
                                C[T.cast(p, "int64") * ldc + (q + 1)] = T.cast(sums[first + 1], out)

    return write
