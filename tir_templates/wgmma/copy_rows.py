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


@T.inline
def copy_rows(
    C,
    staged,
    packed,
    first,
    row,
    column,
    tid,
    row_end,
    column_end,
    ldc,
    vector,
    height,
    width,
    threads,
):
    """Copy a staged block of height by width items to C, as wide as the alignment of C allows."""
    if vector == 8:
        # Of a row of the block so many threads store 16 bytes each; so many rows at a time.
        across = T.meta_var(width // 8)
        rows = T.meta_var(threads // across)
        turns = T.meta_var(-(-height // rows))
        r: T.let = over(tid, across)
        q: T.let = within(tid, across) * 8
        # All that a thread stores is read first: one wait for shared memory instead of several.
        wide = T.alloc_local([4 * turns], "uint32")
        for i in T.unroll(turns):
            T.ptx["ld.shared.v4.b32"](
                wide[4 * i],
                wide[4 * i + 1],
                wide[4 * i + 2],
                wide[4 * i + 3],
                staged.ptr_to([first + _at_most(r + i * rows, turns * rows, height), q]),
            )
        inside: T.let = T.And(column + q < column_end, r < rows)
        # Rows from here on are not stored.
        end: T.let = T.min(row_end, row + height)
        at: T.let = T.cast(row + r, "int64") * ldc + (column + q)
        for i in T.unroll(turns):
            T.evaluate(
                T.cuda.func_call(
                    "store_if",
                    C.ptr_to([at + T.cast(i * rows, "int64") * ldc]),
                    wide[4 * i],
                    wide[4 * i + 1],
                    wide[4 * i + 2],
                    wide[4 * i + 3],
                    T.cast(T.And(inside, row + r + i * rows < end), "int32"),
                    source_code=_STORE,
                )
            )
    else:
        # Loops that are not unrolled, as code that is mostly skipped is best short.
        item = T.alloc_local([1], "int32")
        item[0] = tid
        if vector == 2:
            while item[0] < height * (width // 2):
                r: T.let = T.truncdiv(item[0], width // 2)
                q: T.let = T.truncmod(item[0], width // 2) * 2
                if row + r < row_end and column + q < column_end:
                    T.ptx["ld.shared.b32"](packed[0], staged.ptr_to([first + r, q]))
                    T.ptx["st.global.b32"](
                        C.ptr_to([T.cast(row + r, "int64") * ldc + (column + q)]), packed[0]
                    )
                item[0] = item[0] + threads
        else:
            while item[0] < height * width:
                r: T.let = T.truncdiv(item[0], width)
                q: T.let = T.truncmod(item[0], width)
                if row + r < row_end and column + q < column_end:
                    C[T.cast(row + r, "int64") * ldc + (column + q)] = staged[first + r, q]
                item[0] = item[0] + threads
