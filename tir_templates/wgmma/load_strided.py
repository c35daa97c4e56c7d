"""The producer without TMA: warps that gather operands of any strides and any alignment.

TMA needs rows that start at multiples of 16 bytes. Here, where k is contiguous, eight elements come
out of two aligned loads that are shifted into place; where it is not, one by one, the threads of a
warp along the other axis. Rows and steps outside of the operands become zeros.
"""

from __future__ import annotations

from tvm.script import tirx as T

from .config import ROW_BYTES, STEP, WgmmaConfig

# Elements of 16 bytes.
_VECTOR = 8
_CHUNKS = STEP // _VECTOR
# Vectors that a thread has in flight.
_FLYING = 4


def load_strided(c: WgmmaConfig):
    """Return an inline function that loads the steps [first, last) of the tile at ``at``.

    ``ring`` holds the slot and the phase; both go on from tile to tile. An operand is given as its
    items (16 bits each, from an address that is a multiple of 16 bytes), the items to skip, its
    rows, and the items from row to row and from step to step.
    """
    threads = c.producer_threads
    in_flight = _FLYING if c.blocks == 1 else _FLYING // 2
    gather_p, gather_q = _gather(c.rows, threads, in_flight), _gather(c.columns, threads, in_flight)

    @T.inline
    def load(
        smem,
        full,
        empty,
        p_items,
        p_skip,
        p_rows,
        p_row,
        p_step,
        q_items,
        q_skip,
        q_rows,
        q_row,
        q_step,
        k,
        at,
        first,
        last,
        ring,
        tid,
        lane,
    ):
        # Registers, not expressions: the simplifier would copy those into every use.
        k0 = T.alloc_local([1], "int32")
        k0[0] = first * STEP
        for step in T.serial(last - first):
            T.cuda.mbarrier_wait(empty.ptr_to([ring[0]]), ring[1] ^ 1)
            gather_p(
                smem,
                ring[0] * c.p_bytes,
                p_items,
                p_skip,
                p_rows,
                p_row,
                p_step,
                k,
                at[0],
                k0[0],
                tid,
            )
            gather_q(
                smem,
                c.q_offset + ring[0] * c.q_bytes,
                q_items,
                q_skip,
                q_rows,
                q_row,
                q_step,
                k,
                at[1],
                k0[0],
                tid,
            )
            k0[0] = k0[0] + STEP
            # The tensor cores read through another proxy than these stores went through.
            T.ptx.fence.proxy.async_.shared__cta()
            T.cuda.warp_sync()
            if lane == 0:
                T.ptx.mbarrier.arrive.shared.b64(full.ptr_to([ring[0]]), T.uint32(1))
            ring[0] = ring[0] + 1
            if ring[0] == c.stages:
                ring[0] = 0
                ring[1] = ring[1] ^ 1

    return load


def _gather(height: int, threads: int, in_flight: int):
    """Return an inline function that brings ``height`` rows of one step into shared memory."""
    chunks = height * _CHUNKS
    flying = min(in_flight, -(-chunks // threads))

    @T.inline
    def gather(smem, offset, items, skip, rows, row_stride, step_stride, k, top, k0, tid):
        words = T.alloc_local([flying * 8], "uint32")
        shift = T.alloc_local([flying], "int32")
        out = T.alloc_local([4], "uint32")
        row = T.alloc_local([1], "int32")
        chunk = T.alloc_local([1], "int32")
        item = T.alloc_local([1], "int64")
        end = T.alloc_local([1], "int64")
        # One past the last item that exists.
        end[0] = (
            T.cast(rows - 1, "int64") * row_stride + T.cast(k - 1, "int64") * step_stride + 1 + skip
        )
        for batch in T.serial(-(-chunks // (threads * flying))):
            if step_stride == T.int64(1):
                for u in T.unroll(flying):
                    row[0] = T.truncdiv((batch * flying + u) * threads + tid, _CHUNKS)
                    chunk[0] = T.truncmod(tid, _CHUNKS)
                    item[0] = (
                        T.cast(top + row[0], "int64") * row_stride
                        + (k0 + chunk[0] * _VECTOR)
                        + skip
                    )
                    shift[u] = T.cast(T.bitwise_and(item[0], T.int64(_VECTOR - 1)), "int32")
                    item[0] = item[0] - T.cast(shift[u], "int64")
                    # Whole, inside of its row, and its two aligned vectors inside of the tensor.
                    if (
                        row[0] < height
                        and top + row[0] < rows
                        and k0 + chunk[0] * _VECTOR + _VECTOR <= k
                        and item[0] + 2 * _VECTOR <= end[0]
                    ):
                        T.ptx["ld.global.v4.b32"](
                            words[u * 8],
                            words[u * 8 + 1],
                            words[u * 8 + 2],
                            words[u * 8 + 3],
                            items.ptr_to([item[0]]),
                        )
                        T.ptx["ld.global.v4.b32"](
                            words[u * 8 + 4],
                            words[u * 8 + 5],
                            words[u * 8 + 6],
                            words[u * 8 + 7],
                            items.ptr_to([item[0] + _VECTOR]),
                        )
                    else:
                        shift[u] = -1
                for u in T.unroll(flying):
                    row[0] = T.truncdiv((batch * flying + u) * threads + tid, _CHUNKS)
                    chunk[0] = T.truncmod(tid, _CHUNKS)
                    if row[0] < height:
                        if shift[u] >= 0:
                            _shift(out, words, u, shift[u])
                        else:
                            _one_by_one(
                                out,
                                items,
                                skip,
                                rows,
                                row_stride,
                                step_stride,
                                k,
                                top + row[0],
                                k0 + chunk[0] * _VECTOR,
                            )
                        _put(smem, offset, row[0], chunk[0], out)
            else:
                for u in T.unroll(flying):
                    row[0] = T.truncmod((batch * flying + u) * threads + tid, height)
                    chunk[0] = T.truncdiv((batch * flying + u) * threads + tid, height)
                    if chunk[0] < _CHUNKS:
                        _one_by_one(
                            out,
                            items,
                            skip,
                            rows,
                            row_stride,
                            step_stride,
                            k,
                            top + row[0],
                            k0 + chunk[0] * _VECTOR,
                        )
                        _put(smem, offset, row[0], chunk[0], out)

    return gather


@T.inline
def _shift(out, words, u, items):
    """Take eight items out of sixteen, from the given one on."""
    if items >= 4:
        for i in T.unroll(6):
            words[u * 8 + i] = words[u * 8 + i + 2]
    if T.bitwise_and(items, 2) != 0:
        for i in T.unroll(5):
            words[u * 8 + i] = words[u * 8 + i + 1]
    if T.bitwise_and(items, 1) != 0:
        for i in T.unroll(4):
            words[u * 8 + i] = T.bitwise_or(
                T.shift_right(words[u * 8 + i], T.uint32(16)),
                T.shift_left(words[u * 8 + i + 1], T.uint32(16)),
            )
    for i in T.unroll(4):
        out[i] = words[u * 8 + i]


@T.inline
def _one_by_one(out, items, skip, rows, row_stride, step_stride, k, row, step):
    """Load eight items of a row; those outside of the operand are zero."""
    halves = T.alloc_local([8], "uint32")
    item = T.alloc_local([1], "int64")
    for i in T.unroll(8):
        # An item that is not there is read as the first, so that no load waits for a branch.
        item[0] = T.int64(0)
        if row < rows and step + i < k:
            item[0] = T.cast(row, "int64") * row_stride + T.cast(step + i, "int64") * step_stride
        halves[i] = T.cast(items[item[0] + skip], "uint32")
    for i in T.unroll(8):
        if row >= rows or step + i >= k:
            halves[i] = T.uint32(0)
    for i in T.unroll(4):
        out[i] = T.bitwise_or(halves[2 * i], T.shift_left(halves[2 * i + 1], T.uint32(16)))


@T.inline
def _put(smem, offset, row, chunk, out):
    """Store eight items where the 128-byte swizzle has them."""
    T.ptx["st.shared.v4.b32"](
        smem.ptr_to(
            [offset + row * ROW_BYTES + T.bitwise_xor(chunk, T.bitwise_and(row, 7)) * (2 * _VECTOR)]
        ),
        out[0],
        out[1],
        out[2],
        out[3],
    )
