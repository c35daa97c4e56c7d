"""From staged results in shared memory to rows of C."""

from __future__ import annotations

from tvm.script import tirx as T

# Stores 16 bytes where it may: a predicate costs less than a branch around.
_STORE = """__forceinline__ __device__ void store_if(
    void* at, unsigned a, unsigned b, unsigned c, unsigned d, int may) {
  asm volatile("{ .reg .pred may; setp.ne.s32 may, %5, 0;"
               " @may st.global.v4.b32 [%0], {%1, %2, %3, %4}; }"
               :: "l"(at), "r"(a), "r"(b), "r"(c), "r"(d), "r"(may) : "memory");
}
"""

_WARP = 32
# Words or items that a thread reads from shared memory before it stores them.
_FLYING = 4


def within(x, size: int):
    """Return what is left of a number that is not negative, which the compiler does not know."""
    return T.bitwise_and(x, size - 1) if size & (size - 1) == 0 else T.truncmod(x, size)


def over(x, size: int):
    """Return such a number over a size."""
    power = size & (size - 1) == 0
    return T.shift_right(x, size.bit_length() - 1) if power else T.truncdiv(x, size)


def _at_most(row, end: int, height: int):
    """Return a row of the block: threads behind its end read its last one again."""
    return T.min(row, height - 1) if end > height else row


def copy_rows(dtype: str, height: int, width: int, threads: int):
    """Return an inline that copies a staged block to C, as wide as the alignment of C allows."""
    wide = _wide(height, width, threads)
    pairs, items = (
        _narrow(dtype, 2, height, width, threads),
        _narrow(dtype, 1, height, width, threads),
    )

    @T.inline
    def copy(C, staged, first, row, column, tid, row_end, column_end, ldc, vector):
        # Rows from here on are not stored.
        end: T.let = T.min(row_end, row + height)
        if vector == 8:
            wide(C, staged, first, row, column, tid, end, column_end, ldc)
        else:
            if vector == 2:
                pairs(C, staged, first, row, column, tid, end, column_end, ldc)
            else:
                items(C, staged, first, row, column, tid, end, column_end, ldc)

    return copy


def _wide(height: int, width: int, threads: int):
    """Of a row of the block so many threads store 16 bytes each; so many rows at a time."""
    across = width // 8
    rows = threads // across
    turns = -(-height // rows)

    @T.inline
    def copy(C, staged, first, row, column, tid, end, column_end, ldc):
        r: T.let = over(tid, across)
        q: T.let = within(tid, across) * 8
        # All that a thread stores is read first: one wait for shared memory instead of several.
        read = T.alloc_local([4 * turns], "uint32")
        for i in T.unroll(turns):
            T.ptx["ld.shared.v4.b32"](
                read[4 * i],
                read[4 * i + 1],
                read[4 * i + 2],
                read[4 * i + 3],
                staged.ptr_to([first + _at_most(r + i * rows, turns * rows, height), q]),
            )
        inside: T.let = T.And(column + q < column_end, r < rows)
        at: T.let = T.cast(row + r, "int64") * ldc + (column + q)
        for i in T.unroll(turns):
            T.evaluate(
                T.cuda.func_call(
                    "store_if",
                    C.ptr_to([at + T.cast(i * rows, "int64") * ldc]),
                    read[4 * i],
                    read[4 * i + 1],
                    read[4 * i + 2],
                    read[4 * i + 3],
                    T.cast(T.And(inside, row + r + i * rows < end), "int32"),
                    source_code=_STORE,
                )
            )

    return copy


def _narrow(dtype: str, each: int, height: int, width: int, threads: int):
    """A warp stores items, or pairs of them, that follow each other, a few rows at a time.

    As many as are read at once decide how long it takes; the loop is no longer, as code that is
    mostly skipped is best short.
    """
    parts = -(-width // (_WARP * each))
    across = width // each // parts
    assert across * parts * each == width, "parts of a row are equally long"
    rows = threads // across
    flying = max(1, _FLYING // parts)
    read_type = dtype if each == 1 else "uint32"

    @T.inline
    def copy(C, staged, first, row, column, tid, end, column_end, ldc):
        read = T.alloc_local([flying * parts], read_type)
        r = T.alloc_local([1], "int32")
        at = T.alloc_local([1], "int64")
        r[0] = over(tid, across)
        q: T.let = within(tid, across) * each
        at[0] = T.cast(row + r[0], "int64") * ldc + (column + q)
        if r[0] < rows:
            while row + r[0] < end:
                for i in T.unroll(flying):
                    for part in T.unroll(parts):
                        _read(
                            read,
                            i * parts + part,
                            staged,
                            first + T.min(r[0] + i * rows, height - 1),
                            q + part * across * each,
                            each,
                        )
                for i in T.unroll(flying):
                    for part in T.unroll(parts):
                        if (
                            row + r[0] + i * rows < end
                            and column + q + part * across * each < column_end
                        ):
                            _write(
                                C,
                                at[0] + T.cast(i * rows, "int64") * ldc + part * across * each,
                                read,
                                i * parts + part,
                                each,
                            )
                r[0] = r[0] + flying * rows
                at[0] = at[0] + T.cast(flying * rows, "int64") * ldc

    return copy


@T.inline
def _read(read, index, staged, row, column, each):
    if each == 2:
        T.ptx["ld.shared.b32"](read[index], staged.ptr_to([row, column]))
    else:
        read[index] = staged[row, column]


@T.inline
def _write(C, at, read, index, each):
    if each == 2:
        T.ptx["st.global.b32"](C.ptr_to([at]), read[index])
    else:
        C[at] = read[index]
