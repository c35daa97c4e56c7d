"""A warp's part of a reduction, in rounds: loads of several chunks, then their products."""

from __future__ import annotations

from tvm.script import tirx as T

from .config import AROUND_WORDS, CHUNK_BYTES, THREAD_WORDS, DirectConfig
from .load import clear_beyond, load_aligned, load_around, shift_into_place
from .multiply import multiply


def steps(c: DirectConfig):
    """Return inline functions that add all products of a warp's rounds to ``sums``.

    One is for lines at multiples of the bytes of a load, one for lines that start anywhere. ``x``
    and ``y`` are the operands along the rows and the columns of the instructions, with the bytes
    before each line; ``at`` is the first byte of the round at 1, the thread of the line at 2, and
    from round to round at 3. Only the last round is cut by ``end``.
    """
    run, stages = multiply(c), c.stages
    rows, columns = c.row_lines, c.column_lines
    lines, round_bytes = rows + columns, stages * CHUNK_BYTES

    @T.inline
    def aligned_round(x, y, x_first, y_first, words, sums, at, end, guarded, bytes_of_load):
        for s in T.unroll(stages):
            chunk: T.let = at[1] + s * CHUNK_BYTES
            first: T.let = s * lines * THREAD_WORDS
            load_aligned(words, first, x, x_first, rows, chunk, at[2], end, guarded, bytes_of_load)
            load_aligned(
                words,
                first + rows * THREAD_WORDS,
                y,
                y_first,
                columns,
                chunk,
                at[2],
                end,
                guarded,
                bytes_of_load,
            )
        for s in T.unroll(stages):
            run(words, s * lines * THREAD_WORDS, sums)

    @T.inline
    def around_round(x, y, x_first, y_first, raw, words, sums, at, end, guarded):
        for s in T.unroll(stages):
            chunk: T.let = at[1] + s * CHUNK_BYTES
            first: T.let = s * lines * AROUND_WORDS
            load_around(raw, first, x, x_first, rows, chunk, at[2], end, guarded)
            load_around(
                raw, first + rows * AROUND_WORDS, y, y_first, columns, chunk, at[2], end, guarded
            )
        for s in T.unroll(stages):
            first: T.let = s * lines * AROUND_WORDS
            shift_into_place(words, 0, raw, first, x_first, rows)
            shift_into_place(
                words, rows * THREAD_WORDS, raw, first + rows * AROUND_WORDS, y_first, columns
            )
            if guarded:
                clear_beyond(words, lines, at[1] + s * CHUNK_BYTES, at[2], end)
            run(words, 0, sums)

    @T.inline
    def aligned_steps(x, y, x_first, y_first, words, sums, at, end, bytes_of_load):
        while at[1] + round_bytes <= end:
            aligned_round(x, y, x_first, y_first, words, sums, at, end, False, bytes_of_load)
            at[1] = at[1] + at[3]
        if at[1] < end:
            aligned_round(x, y, x_first, y_first, words, sums, at, end, True, bytes_of_load)

    @T.inline
    def around_steps(x, y, x_first, y_first, words, sums, at, end):
        raw = T.alloc_local([stages * lines * AROUND_WORDS], "uint32")
        while at[1] + round_bytes <= end:
            around_round(x, y, x_first, y_first, raw, words, sums, at, end, False)
            at[1] = at[1] + at[3]
        if at[1] < end:
            around_round(x, y, x_first, y_first, raw, words, sums, at, end, True)

    return aligned_steps, around_steps
