"""A thread's items of lines and of the vector, by 16 bytes or one by one.

What lies beyond the reduction is zero.
"""

from __future__ import annotations

from tvm.script import tirx as T

from .config import GemvConfig

# Words of one load.
WORDS = 4


def load_vectors(c: GemvConfig):
    """Return an inline function that loads 16 bytes at once of every line and of the vector."""

    @T.inline
    def load(matrix, vector, item, vector_skip, words, factors, at, lane, k):
        for s in T.unroll(c.stages):
            column: T.let = at[1] + s * at[2] + lane * c.vector
            if column < k:
                for i in T.unroll(c.warp_lines):
                    _load_four(words, (i * c.stages + s) * 4, matrix, item[i] + column)
                _load_four(factors, s * 4, vector, T.cast(vector_skip + column, "int64"))
            else:
                for i in T.unroll(c.warp_lines):
                    _no_words(words, (i * c.stages + s) * 4)
                _no_words(factors, s * 4)

    return load


@T.inline
def _load_four(words, at, buffer, item):
    T.ptx["ld.global.nc.v4.b32"](
        words[at], words[at + 1], words[at + 2], words[at + 3], buffer.ptr_to([item])
    )


@T.inline
def _no_words(words, at):
    for i in T.unroll(4):
        words[at + i] = T.uint32(0)


def load_items(c: GemvConfig):
    """Return an inline function that loads item by item, the lanes side by side."""
    per_word = c.vector // WORDS
    word_of = _two if per_word == 2 else _one

    @T.inline
    def load(matrix, vector, item, vector_skip, words, factors, at, lane, k):
        for s in T.unroll(c.stages):
            for place in T.unroll(WORDS):
                column: T.let = at[1] + s * at[2] + place * (32 * per_word) + lane
                for i in T.unroll(c.warp_lines):
                    words[(i * c.stages + s) * WORDS + place] = word_of(matrix, item[i], column, k)
                factors[s * WORDS + place] = word_of(
                    vector, T.cast(vector_skip, "int64"), column, k
                )

    return load


def _one(buffer, item, column, k):
    """An item; what is not there is zero."""
    return T.if_then_else(column < k, buffer[item + column], T.uint32(0))


def _two(buffer, item, column, k):
    """Two items a warp's width apart; what is not there is zero."""
    zero = T.uint16(0)
    low = T.if_then_else(column < k, buffer[item + column], zero)
    high = T.if_then_else(column + 32 < k, buffer[item + column + 32], zero)
    return T.bitwise_or(T.cast(low, "uint32"), T.shift_left(T.cast(high, "uint32"), T.uint32(16)))
