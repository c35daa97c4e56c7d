"""The producer for rows that start anywhere: TMA by several maps of each operand, then shifts.

TMA needs a stride and a start that are multiples of 16 bytes, of every copy. Of rows as many apart
as 16 bytes have items, the stride is such a multiple, and all of them start at the same place
within 16 bytes. So the rows of each residue modulo that number have a map of their own, from the
multiple of 16 bytes at or before the first of them on.

A copy brings 16 bytes of each row more than a step has, to a ring that only the warps read that
put the rows in place: they shift them to where they start, and store them where the tensor cores
look for them.
"""

from __future__ import annotations

from tvm.script import tirx as T

from ..items import ALIGNED_BYTES, ROW_BYTES
from ..shift import shift_words
from .block import next_slot
from .config import WgmmaConfig
from .shared_memory import RAW_ROW_BYTES

_COPY = "cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes"

# A thread places half of a row at a time: so many times 16 bytes, in words of 32 bits.
_HALVES = 2
_VECTORS = ROW_BYTES // ALIGNED_BYTES // _HALVES
_WORDS = ALIGNED_BYTES // 4
# Rows after which the swizzle repeats.
_SWIZZLE_ROWS = 8


def arrivals(c: WgmmaConfig, smem):
    """Declare the barriers of slots that have arrived, and of those that have been read."""
    return tuple(
        T.decl_buffer(
            (c.stages,),
            "uint64",
            data=smem.data,
            byte_offset=c.raw_full_offset + 8 * c.stages * i,
            scope="shared.dyn",
        )
        for i in range(2)
    )


def copy_residues(c: WgmmaConfig, *, along_p: bool):
    """Return an inline function that copies one operand's part of a tile's steps."""
    height = c.rows if along_p else c.columns
    axis = 0 if along_p else 1
    offset = c.arrival_offset + _raw_offset(c, along_p)
    box_bytes = c.raw_box_bytes(height)

    def copy_all(b, maps, raw_full, slot, top, k0):
        for residue, tensor_map in enumerate(maps):
            T.evaluate(
                T.ptx[_COPY](
                    b.smem.ptr_to([offset + residue * box_bytes + slot[0] * c.arrival_bytes]),
                    T.address_of(tensor_map),
                    k0[0],
                    top[0],
                    raw_full.ptr_to([slot[0]]),
                )
            )

    @T.inline
    def copy(b, operand, raw_full, raw_empty):
        slot = T.alloc_local([2], "int32")
        top = T.alloc_local([1], "int32")
        k0 = T.alloc_local([1], "int32")
        slot[0] = 0
        slot[1] = 0
        top[0] = T.truncdiv(b.at[axis], c.residues)
        k0[0] = b.work[2] * c.step
        for _ in T.serial(b.work[3]):
            T.cuda.mbarrier_wait(raw_empty.ptr_to([slot[0]]), slot[1] ^ 1)
            T.ptx.mbarrier.arrive.expect_tx.shared.b64(
                raw_full.ptr_to([slot[0]]), T.uint32(height * RAW_ROW_BYTES)
            )
            copy_all(b, operand.maps, raw_full, slot, top, k0)
            k0[0] = k0[0] + c.step
            next_slot(slot, b.arrival_depth)

    return copy


def place_residues(c: WgmmaConfig):
    """Return an inline function for the warps that put a tile's steps in place.

    ``tid`` is the thread among theirs.
    """
    locate_p, locate_q = (_locate(c, along_p=along_p) for along_p in (True, False))
    place_p, place_q = (_place(c, along_p=along_p) for along_p in (True, False))
    p_count, q_count = _rounds(c, c.rows), _rounds(c, c.columns)

    @T.inline
    def place(b, p, q, raw_full, raw_empty, tid):
        p_from = T.alloc_local([p_count], "int32")
        q_from = T.alloc_local([q_count], "int32")
        p_to = T.alloc_local([p_count], "int32")
        q_to = T.alloc_local([q_count], "int32")
        shift = T.alloc_local([2], "int32")
        slot = T.alloc_local([2], "int32")
        slot[0] = 0
        slot[1] = 0
        locate_p(p, p_from, p_to, shift, tid)
        locate_q(q, q_from, q_to, shift, tid)
        for _ in T.serial(b.work[3]):
            T.cuda.mbarrier_wait(raw_full.ptr_to([slot[0]]), slot[1])
            T.cuda.mbarrier_wait(b.empty.ptr_to([b.ring[0]]), b.ring[1] ^ 1)
            place_p(b, p_from, p_to, shift, slot, tid)
            place_q(b, q_from, q_to, shift, slot, tid)
            # The tensor cores read through another proxy than these stores went through.
            T.ptx.fence.proxy.async_.shared__cta()
            T.cuda.warp_sync()
            if b.lane == 0:
                T.ptx.mbarrier.arrive.shared.b64(b.full.ptr_to([b.ring[0]]), T.uint32(1))
                T.ptx.mbarrier.arrive.shared.b64(raw_empty.ptr_to([slot[0]]), T.uint32(1))
            next_slot(slot, b.arrival_depth)
            next_slot(b.ring, c.slots)

    return place


def _raw_offset(c: WgmmaConfig, along_p: bool) -> int:
    return 0 if along_p else c.residues * c.raw_box_bytes(c.rows)


def _rounds(c: WgmmaConfig, height: int) -> int:
    """Half rows that a thread places of an operand, in each step."""
    return -(-height * _HALVES // c.placing_threads)


def _locate(c: WgmmaConfig, *, along_p: bool):
    """Return an inline function that finds a thread's half rows: from where, to where, what shift.

    Eight threads side by side take rows of eight residues of the swizzle, which lie in as many
    places of the ring that is read: neither their reads nor their writes meet in a bank.
    """
    height = c.rows if along_p else c.columns
    which = 0 if along_p else 1
    box_bytes = c.raw_box_bytes(height)
    groups = height // _SWIZZLE_ROWS

    @T.inline
    def locate(operand, start, end, shift, tid):
        first: T.let = T.cast(operand.skip, "int64") + T.truncmod(tid, c.residues) * operand.stride
        shift[which] = (
            T.cast(T.bitwise_and(first, T.int64(c.item.aligned - 1)), "int32") * c.item.bytes
        )
        for u in T.unroll(_rounds(c, height)):
            item: T.let = T.truncmod(u * c.placing_threads + tid, height)
            half: T.let = T.truncdiv(u * c.placing_threads + tid, height)
            of_eight: T.let = T.truncmod(item, _SWIZZLE_ROWS)
            row: T.let = (
                T.truncmod(T.truncdiv(item, _SWIZZLE_ROWS) + of_eight, groups) * _SWIZZLE_ROWS
                + of_eight
            )
            start[u] = (
                T.truncmod(row, c.residues) * box_bytes
                + T.truncdiv(row, c.residues) * RAW_ROW_BYTES
                + half * (_VECTORS * ALIGNED_BYTES)
            )
            # The swizzle exchanges the lowest bits of the place in a row.
            end[u] = row * ROW_BYTES + T.bitwise_xor(half * _VECTORS, of_eight) * ALIGNED_BYTES

    return locate


def _place(c: WgmmaConfig, *, along_p: bool):
    """Return an inline function that places a thread's half rows of one step."""
    height = c.rows if along_p else c.columns
    which = 0 if along_p else 1
    raw = c.arrival_offset + _raw_offset(c, along_p)
    out = c.ring_offset + (0 if along_p else c.p_bytes)
    ragged = height * _HALVES % c.placing_threads != 0
    rounds = _rounds(c, height)
    count = (_VECTORS + 1) * _WORDS

    @T.inline
    def move(b, start, end, shift, slot):
        words = T.alloc_local([count], "uint32")
        for i in T.unroll(_VECTORS + 1):
            T.ptx["ld.shared.v4.b32"](
                words[i * _WORDS],
                words[i * _WORDS + 1],
                words[i * _WORDS + 2],
                words[i * _WORDS + 3],
                b.smem.ptr_to([raw + slot[0] * c.arrival_bytes + start + i * ALIGNED_BYTES]),
            )
        for i in T.unroll(count - 2):
            words[i] = T.Select(T.bitwise_and(shift, 8) != 0, words[i + 2], words[i])
        for i in T.unroll(count - 3):
            words[i] = T.Select(T.bitwise_and(shift, 4) != 0, words[i + 1], words[i])
        if c.item.bytes < 4:
            for i in T.unroll(count - _WORDS):
                words[i] = shift_words(words[i], words[i + 1], T.bitwise_and(shift, 3) * 8)
        for i in T.unroll(_VECTORS):
            T.ptx["st.shared.v4.b32"](
                b.smem.ptr_to(
                    [out + b.ring[0] * c.slot_bytes + T.bitwise_xor(end, i * ALIGNED_BYTES)]
                ),
                words[i * _WORDS],
                words[i * _WORDS + 1],
                words[i * _WORDS + 2],
                words[i * _WORDS + 3],
            )

    @T.inline
    def place(b, start, end, shift, slot, tid):
        for u in T.unroll(rounds):
            if ragged and u == rounds - 1:
                if u * c.placing_threads + tid < height * _HALVES:
                    move(b, start[u], end[u], shift[which], slot)
            else:
                move(b, start[u], end[u], shift[which], slot)

    return place
