"""Fragments from global memory: 16 bytes of k of each line of a thread; lines start anywhere.

Loads are as wide as all lines and the reduction length allow, and the four threads of a line load
side by side. Where that is less than a word, a thread loads the five words that its bytes lie in
and shifts them into place. What lies beyond the reduction is zero, in A and in B.
"""

from __future__ import annotations

from tvm.script import tirx as T

from ..shift import shift_words
from .config import AROUND_WORDS, CHUNK_BYTES, THREAD_BYTES, THREAD_WORDS

# Bytes of one load where lines start at multiples of them.
WIDTHS = (16, 8, 4)
_WORD = 4
_LOADS = {16: "ld.global.nc.v4.b32", 8: "ld.global.nc.v2.b32", 4: "ld.global.nc.b32"}

_GUARDED = """__forceinline__ __device__ void load_guarded(
    unsigned& a, unsigned& b, unsigned& c, unsigned& d, const void* from, int guard) {
  asm volatile("{.reg .pred p; setp.ne.s32 p, %5, 0; "
               "@p ld.global.nc.v4.b32 {%0, %1, %2, %3}, [%4];}"
               : "+r"(a), "+r"(b), "+r"(c), "+r"(d) : "l"(from), "r"(guard));
}
__forceinline__ __device__ void load_guarded(
    unsigned& a, unsigned& b, const void* from, int guard) {
  asm volatile("{.reg .pred p; setp.ne.s32 p, %3, 0; @p ld.global.nc.v2.b32 {%0, %1}, [%2];}"
               : "+r"(a), "+r"(b) : "l"(from), "r"(guard));
}
__forceinline__ __device__ void load_guarded(unsigned& a, const void* from, int guard) {
  asm volatile("{.reg .pred p; setp.ne.s32 p, %2, 0; @p ld.global.nc.b32 %0, [%1];}"
               : "+r"(a) : "l"(from), "r"(guard));
}
"""


@T.inline
def _load(words, at, operand, item, guarded, guard, width):
    """Load so many bytes, or make them zero where they are guarded and ``guard`` is false."""
    if guarded:
        for w in T.unroll(width // _WORD):
            words[at + w] = T.uint32(0)
        T.evaluate(
            T.cuda.func_call(
                "load_guarded",
                *[words[at + w] for w in range(width // _WORD)],
                operand.ptr_to([item]),
                T.cast(guard, "int32"),
                source_code=_GUARDED,
            )
        )
    else:
        T.ptx[_LOADS[width]](
            *[words[at + w] for w in range(width // _WORD)], operand.ptr_to([item])
        )


@T.inline
def load_aligned(words, at, operand, first, lines, chunk, quarter, end, guarded, width):
    """Load a thread's bytes of a chunk of some lines, by ``width`` bytes.

    ``first`` are the bytes before each line, ``at`` is the first of the words to fill, ``quarter``
    is the thread among the four of a line.
    """
    for v in T.unroll(THREAD_BYTES // width):
        column: T.let = chunk + v * (4 * width) + quarter * width
        for i in T.unroll(lines):
            _load(
                words,
                at + i * THREAD_WORDS + v * (width // _WORD),
                operand,
                first[i] + column,
                guarded,
                column < end,
                width,
            )


@T.inline
def load_around(raw, at, operand, first, lines, chunk, quarter, end, guarded):
    """Load the words that hold a thread's bytes of a chunk of some lines."""
    column: T.let = chunk + quarter * THREAD_BYTES
    for v in T.unroll(AROUND_WORDS):
        for i in T.unroll(lines):
            over: T.let = T.bitwise_and(T.cast(first[i], "int32"), _WORD - 1)
            # Words without a byte of the reduction may not be there.
            _load(
                raw,
                at + i * AROUND_WORDS + v,
                operand,
                first[i] + (column + v * _WORD - over),
                guarded,
                T.And(column < end, column + v * _WORD - over < end),
                _WORD,
            )


@T.inline
def shift_into_place(words, at, raw, raw_at, first, lines):
    """Shift what was loaded around, so that words begin where their bytes do."""
    for i in T.unroll(lines):
        over: T.let = T.bitwise_and(T.cast(first[i], "int32"), _WORD - 1)
        for w in T.unroll(THREAD_WORDS):
            words[at + i * THREAD_WORDS + w] = shift_words(
                raw[raw_at + i * AROUND_WORDS + w], raw[raw_at + i * AROUND_WORDS + w + 1], over * 8
            )


@T.inline
def clear_beyond(words, lines, chunk, quarter, end):
    """Make zero what lies at ``end`` or beyond of a chunk that ``end`` cuts."""
    keep = T.alloc_local([THREAD_WORDS], "uint32")
    if chunk + CHUNK_BYTES > end:
        for w in T.unroll(THREAD_WORDS):
            left: T.let = T.min(T.max(end - chunk - quarter * THREAD_BYTES - w * _WORD, 0), _WORD)
            # All bits, of which those of so many bytes stay; no shift is by a whole word.
            keep[w] = T.Select(
                left == _WORD,
                T.uint32(0xFFFFFFFF),
                T.shift_left(T.uint32(1), T.cast(T.bitwise_and(left, 3) * 8, "uint32"))
                - T.uint32(1),
            )
        for i in T.unroll(lines):
            for w in T.unroll(THREAD_WORDS):
                words[i * THREAD_WORDS + w] = T.bitwise_and(words[i * THREAD_WORDS + w], keep[w])
