"""The producer without TMA: warps that gather operands of any strides and any alignment.

TMA needs rows that start at multiples of 16 bytes. Here, where k is contiguous, 16 bytes come out
of two aligned loads that are shifted into place; where it is not, item by item, the threads of a
warp along the other axis. Rows and steps outside of the operands become zeros.

The loads of two steps are in flight while those of the step before are shifted and stored: with
one step at a time the latency of memory is all there is.
"""

from __future__ import annotations

from tvm.script import tirx as T

from ..items import ROW_BYTES
from .block import next_slot
from .config import WgmmaConfig

# What a thread stores at once, and how many of these a row of a step has.
_CHUNK_BYTES = 16
_CHUNKS = ROW_BYTES // _CHUNK_BYTES
# 32-bit words of the two aligned chunks that those of an unaligned one lie in.
_WORDS = 8


def load_strided(c: WgmmaConfig):
    """Return an inline function that loads the steps of a block's tile.

    It takes a :class:`~.block.Block`, the operands along p and q, and the thread among those that
    load.
    """
    threads = c.producer_threads
    p_flying, q_flying = (-(-rows * _CHUNKS // threads) for rows in (c.rows, c.columns))
    fetch_p, fetch_q = _fetch(c, c.rows), _fetch(c, c.columns)
    place_p, place_q = _place(c, c.rows), _place(c, c.columns)

    @T.inline
    def turn(b, x, y, k, k0, p_words, p_shift, q_words, q_shift, tid):
        slot: T.let = c.ring_offset + b.ring[0] * c.slot_bytes
        T.cuda.mbarrier_wait(b.empty.ptr_to([b.ring[0]]), b.ring[1] ^ 1)
        place_p(b.smem, slot, p_words, p_shift, x, k, b.at[0], k0[0], tid)
        place_q(b.smem, slot + c.p_bytes, q_words, q_shift, y, k, b.at[1], k0[0], tid)
        fetch_p(p_words, p_shift, x, k, b.at[0], k0[0] + 2 * c.step, tid)
        fetch_q(q_words, q_shift, y, k, b.at[1], k0[0] + 2 * c.step, tid)
        k0[0] = k0[0] + c.step
        # The tensor cores read through another proxy than these stores went through.
        T.ptx.fence.proxy.async_.shared__cta()
        T.cuda.warp_sync()
        if b.lane == 0:
            T.ptx.mbarrier.arrive.shared.b64(b.full.ptr_to([b.ring[0]]), T.uint32(1))
        next_slot(b.ring, b.depth)

    @T.inline
    def load(b, x, y, k, tid):
        # Of the even steps and of the odd ones.
        p_even = T.alloc_local([p_flying * _WORDS], "uint32")
        q_even = T.alloc_local([q_flying * _WORDS], "uint32")
        p_odd = T.alloc_local([p_flying * _WORDS], "uint32")
        q_odd = T.alloc_local([q_flying * _WORDS], "uint32")
        p_even_shift = T.alloc_local([p_flying], "int32")
        q_even_shift = T.alloc_local([q_flying], "int32")
        p_odd_shift = T.alloc_local([p_flying], "int32")
        q_odd_shift = T.alloc_local([q_flying], "int32")
        # Registers, not expressions: the simplifier would copy those into every use.
        k0 = T.alloc_local([1], "int32")
        left = T.alloc_local([1], "int32")
        k0[0] = b.work[2] * c.step
        left[0] = b.work[3]
        fetch_p(p_even, p_even_shift, x, k, b.at[0], k0[0], tid)
        fetch_q(q_even, q_even_shift, y, k, b.at[1], k0[0], tid)
        fetch_p(p_odd, p_odd_shift, x, k, b.at[0], k0[0] + c.step, tid)
        fetch_q(q_odd, q_odd_shift, y, k, b.at[1], k0[0] + c.step, tid)
        while left[0] > 0:
            turn(b, x, y, k, k0, p_even, p_even_shift, q_even, q_even_shift, tid)
            if left[0] > 1:
                turn(b, x, y, k, k0, p_odd, p_odd_shift, q_odd, q_odd_shift, tid)
            left[0] = left[0] - 2

    return load


def _fetch(c: WgmmaConfig, height: int):
    """Return an inline function that starts the loads of one step, where k is contiguous.

    A thread's ``shift`` says where its items begin in the words, or -1 where they are not all
    inside of the operand.
    """
    threads, vector = c.producer_threads, _CHUNK_BYTES // c.item.bytes
    flying = -(-height * _CHUNKS // threads)

    @T.inline
    def fetch(words, shift, operand, k, top, k0, tid):
        row = T.alloc_local([1], "int32")
        item = T.alloc_local([1], "int64")
        column = T.alloc_local([1], "int32")
        if operand.k_stride == T.int64(1):
            column[0] = k0 + T.truncmod(tid, _CHUNKS) * vector
            for u in T.unroll(flying):
                row[0] = T.truncdiv(u * threads + tid, _CHUNKS)
                item[0] = T.cast(top + row[0], "int64") * operand.stride + column[0] + operand.skip
                shift[u] = T.cast(T.bitwise_and(item[0], T.int64(vector - 1)), "int32")
                item[0] = item[0] - T.cast(shift[u], "int64")
                # Whole, inside of its row, and both aligned vectors before the end of the last row.
                if (
                    row[0] < height
                    and top + row[0] < operand.rows
                    and column[0] + vector <= k
                    and (
                        (top + row[0] + 1 < operand.rows and operand.stride >= T.int64(vector))
                        or column[0] + 2 * vector <= k + shift[u]
                    )
                ):
                    T.ptx["ld.global.v4.b32"](
                        words[u * _WORDS],
                        words[u * _WORDS + 1],
                        words[u * _WORDS + 2],
                        words[u * _WORDS + 3],
                        operand.items.ptr_to([item[0]]),
                    )
                    T.ptx["ld.global.v4.b32"](
                        words[u * _WORDS + 4],
                        words[u * _WORDS + 5],
                        words[u * _WORDS + 6],
                        words[u * _WORDS + 7],
                        operand.items.ptr_to([item[0] + vector]),
                    )
                else:
                    shift[u] = -1

    return fetch


def _place(c: WgmmaConfig, height: int):
    """Return an inline function that stores one step where the tensor cores look for it."""
    threads, vector = c.producer_threads, _CHUNK_BYTES // c.item.bytes
    flying = -(-height * _CHUNKS // threads)

    @T.inline
    def place(smem, offset, words, shift, operand, k, top, k0, tid):
        out = T.alloc_local([4], "uint32")
        row = T.alloc_local([1], "int32")
        chunk = T.alloc_local([1], "int32")
        for u in T.unroll(flying):
            if operand.k_stride == T.int64(1):
                row[0] = T.truncdiv(u * threads + tid, _CHUNKS)
                chunk[0] = T.truncmod(tid, _CHUNKS)
            else:
                row[0] = T.truncmod(u * threads + tid, height)
                chunk[0] = T.truncdiv(u * threads + tid, height)
                shift[u] = -1
            if row[0] < height and chunk[0] < _CHUNKS:
                if shift[u] >= 0:
                    _shift(c, out, words, u, shift[u])
                else:
                    _one_by_one(c, out, operand, k, top + row[0], k0 + chunk[0] * vector)
                if c.dtype == "tf32":
                    _round(out)
                _put(smem, offset, row[0], chunk[0], out)

    return place


@T.inline
def _shift_bits(words, u, bits):
    # The last word lends its bits only: after this nothing reads what follows them.
    for i in T.unroll(4):
        words[u * _WORDS + i] = T.bitwise_or(
            T.shift_right(words[u * _WORDS + i], T.uint32(bits)),
            T.shift_left(words[u * _WORDS + i + 1], T.uint32(32 - bits)),
        )
    words[u * _WORDS + 4] = T.shift_right(words[u * _WORDS + 4], T.uint32(bits))


@T.inline
def _shift(c, out, words, u, items):
    """Take 16 bytes out of 32, from the given item on."""
    if items * c.item.bytes >= 8:
        for i in T.unroll(6):
            words[u * _WORDS + i] = words[u * _WORDS + i + 2]
    if T.bitwise_and(items * c.item.bytes, 4) != 0:
        for i in T.unroll(5):
            words[u * _WORDS + i] = words[u * _WORDS + i + 1]
    if c.item.bytes <= 2:
        if T.bitwise_and(items * c.item.bytes, 2) != 0:
            _shift_bits(words, u, 16)
    if c.item.bytes == 1:
        if T.bitwise_and(items, 1) != 0:
            _shift_bits(words, u, 8)
    for i in T.unroll(4):
        out[i] = words[u * _WORDS + i]


@T.inline
def _one_by_one(c, out, operand, k, row, step):
    """Load 16 bytes of a row, item by item; those outside of the operand are zero."""
    parts = T.alloc_local([_CHUNK_BYTES // c.item.bytes], "uint32")
    item = T.alloc_local([1], "int64")
    for i in T.unroll(_CHUNK_BYTES // c.item.bytes):
        # An item that is not there is read as the first, so that no load waits for a branch.
        item[0] = T.int64(0)
        if row < operand.rows and step + i < k:
            item[0] = (
                T.cast(row, "int64") * operand.stride + T.cast(step + i, "int64") * operand.k_stride
            )
        parts[i] = T.cast(operand.items[item[0] + operand.skip], "uint32")
    for i in T.unroll(_CHUNK_BYTES // c.item.bytes):
        if row >= operand.rows or step + i >= k:
            parts[i] = T.uint32(0)
    for i in T.unroll(4):
        out[i] = parts[i * (4 // c.item.bytes)]
        for j in T.unroll(4 // c.item.bytes - 1):
            out[i] = T.bitwise_or(
                out[i],
                T.shift_left(
                    parts[i * (4 // c.item.bytes) + j + 1],
                    T.cast((j + 1) * (8 * c.item.bytes), "uint32"),
                ),
            )


@T.inline
def _round(out):
    """Round float32 to what the tensor cores read of it, to even as tensor copies do."""
    for i in T.unroll(4):
        T.ptx["cvt.rn.tf32.f32"](out[i], T.reinterpret("float32", out[i]))


@T.inline
def _put(smem, offset, row, chunk, out):
    """Store 16 bytes where the 128-byte swizzle has them."""
    T.ptx["st.shared.v4.b32"](
        smem.ptr_to(
            [offset + row * ROW_BYTES + T.bitwise_xor(chunk, T.bitwise_and(row, 7)) * _CHUNK_BYTES]
        ),
        out[0],
        out[1],
        out[2],
        out[3],
    )
