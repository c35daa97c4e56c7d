"""The products of what was loaded."""

from __future__ import annotations

from tvm.script import tirx as T

from .config import THREAD_WORDS, DirectConfig

# Instructions for the bytes of a thread; each takes two words of a line.
_HALVES = 2


def multiply(c: DirectConfig):
    """Return an inline function that adds the products of one chunk to the sums.

    ``words`` holds the lines along the rows of the instructions, from ``at`` on, and then those
    along the columns.
    """
    instruction, rounded = c.item.mma, c.dtype == "tf32"
    row_blocks, columns, row_words = c.row_lines // 2, c.column_lines, c.row_lines * THREAD_WORDS
    count = (c.row_lines + c.column_lines) * THREAD_WORDS

    @T.inline
    def run(words, at, sums):
        if rounded:
            for i in T.unroll(count):
                T.ptx["cvt.rna.tf32.f32"](words[at + i], T.reinterpret("float32", words[at + i]))
        for half in T.unroll(_HALVES):
            for i in T.unroll(row_blocks):
                for j in T.unroll(columns):
                    T.ptx[instruction](
                        *[sums[(i * columns + j) * 4 + r] for r in range(4)],
                        words[at + (2 * i) * THREAD_WORDS + 2 * half],
                        words[at + (2 * i + 1) * THREAD_WORDS + 2 * half],
                        words[at + (2 * i) * THREAD_WORDS + 2 * half + 1],
                        words[at + (2 * i + 1) * THREAD_WORDS + 2 * half + 1],
                        words[at + row_words + j * THREAD_WORDS + 2 * half],
                        words[at + row_words + j * THREAD_WORDS + 2 * half + 1],
                        *[sums[(i * columns + j) * 4 + r] for r in range(4)],
                    )

    return run
