"""A run of sums to C, as wide as the alignment of C allows."""

from __future__ import annotations

from tvm.script import tirx as T

from .config import DirectConfig

_CONVERT = {"float16": "cvt.rn.f16x2.f32", "bfloat16": "cvt.rn.bf16x2.f32"}


def store(c: DirectConfig):
    """Return an inline function that writes a run of a row of C that begins at a column."""
    per_word = 1 if c.wide_output else 2
    words = c.run // per_word
    group = min(words, 4)
    wide = f"st.global.v{group}.b32" if group > 1 else "st.global.b32"
    pair = "st.global.v2.b32" if c.wide_output else "st.global.b32"
    pair_words = 2 // per_word
    convert, stored = _CONVERT.get(c.out_dtype, ""), c.stored_dtype

    @T.inline
    def write(C, total, packed, row, column, m, n, ldc, vector):
        if row < m:
            for w in T.unroll(words):
                if c.wide_output:
                    packed[w] = T.reinterpret("uint32", total[w])
                else:
                    T.ptx[convert](packed[w], total[2 * w + 1], total[2 * w])
            # Where all of a vector is aligned, rows end at one.
            if vector > 2:
                for g in T.unroll(words // group):
                    if column + g * (group * per_word) < n:
                        T.ptx[wide](
                            C.ptr_to(
                                [T.cast(row, "int64") * ldc + (column + g * group * per_word)]
                            ),
                            *[packed[g * group + i] for i in range(group)],
                        )
            else:
                if vector == 2:
                    for g in T.unroll(c.run // 2):
                        if column + g * 2 < n:
                            T.ptx[pair](
                                C.ptr_to([T.cast(row, "int64") * ldc + (column + g * 2)]),
                                *[packed[g * pair_words + i] for i in range(pair_words)],
                            )
                else:
                    for i in T.unroll(c.run):
                        if column + i < n:
                            C[T.cast(row, "int64") * ldc + (column + i)] = T.cast(total[i], stored)

    return write
