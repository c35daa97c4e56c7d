"""Steps of k into shared memory: 16 bytes a thread, rows swizzled so that fragments meet all banks.

Rows and steps outside of the operands become zeros.
"""

from __future__ import annotations

from tvm.script import tirx as T

from ..items import ROW_BYTES
from .config import CHUNK_BYTES, CHUNKS, MmaConfig


def copy_rows(c: MmaConfig, height: int):
    """Return an inline function that starts the asynchronous copy of one operand's step.

    ``operand`` is its items, those to skip, its rows, and the items from row to row.
    """
    threads, vector, width = c.threads, CHUNK_BYTES // c.item.bytes, c.item.bytes
    rounds = -(-height * CHUNKS // threads)

    @T.inline
    def copy(smem, offset, operand, k, top, k0, tx):
        item = T.alloc_local([1], "int64")
        count = T.alloc_local([1], "int32")
        for u in T.unroll(rounds):
            row: T.let = T.truncdiv(u * threads + tx, CHUNKS)
            chunk: T.let = T.truncmod(tx, CHUNKS)
            if row < height:
                # What is not there is not read, from an address that is valid all the same.
                count[0] = T.max(0, T.min(CHUNK_BYTES, (k - k0 - chunk * vector) * width))
                item[0] = T.cast(top + row, "int64") * operand[3] + (k0 + chunk * vector)
                if top + row >= operand[2] or count[0] == 0:
                    count[0] = 0
                    item[0] = T.int64(0)
                T.ptx["cp.async.cg.shared.global"](
                    smem.ptr_to(
                        [
                            offset
                            + row * ROW_BYTES
                            + T.bitwise_xor(chunk, T.bitwise_and(row, 7)) * CHUNK_BYTES
                        ]
                    ),
                    operand[0].ptr_to([item[0] + operand[1]]),
                    CHUNK_BYTES,
                    T.cast(count[0], "uint32"),
                )

    return copy


def gather_rows(c: MmaConfig, height: int):
    """Return inline functions that load a step of one operand, item by item, and that store it.

    Threads are next to each other along whichever axis is contiguous.
    """
    threads, width = c.threads, c.item.bytes
    vector, packed = CHUNK_BYTES // width, 4 // c.item.bytes
    rounds = -(-height * CHUNKS // threads)

    @T.inline
    def locate(row, chunk, operand, number):
        if operand[4] == T.int64(1):
            row[0] = T.truncdiv(number, CHUNKS)
            chunk[0] = T.truncmod(number, CHUNKS)
        else:
            row[0] = T.truncmod(number, height)
            chunk[0] = T.truncdiv(number, height)

    @T.inline
    def fetch(words, operand, k, top, k0, tx):
        row = T.alloc_local([1], "int32")
        chunk = T.alloc_local([1], "int32")
        item = T.alloc_local([1], "int64")
        part = T.alloc_local([1], "uint32")
        for u in T.unroll(rounds):
            locate(row, chunk, operand, u * threads + tx)
            for i in T.unroll(4):
                words[u * 4 + i] = T.uint32(0)
            for i in T.unroll(vector):
                # An item that is not there is read as the first, so that no load waits.
                item[0] = T.int64(0)
                if top + row[0] < operand[2] and k0 + chunk[0] * vector + i < k:
                    item[0] = (
                        T.cast(top + row[0], "int64") * operand[3]
                        + T.cast(k0 + chunk[0] * vector + i, "int64") * operand[4]
                    )
                part[0] = T.cast(operand[0][item[0] + operand[1]], "uint32")
                if top + row[0] >= operand[2] or k0 + chunk[0] * vector + i >= k:
                    part[0] = T.uint32(0)
                words[u * 4 + i // packed] = T.bitwise_or(
                    words[u * 4 + i // packed],
                    T.shift_left(part[0], T.cast((i % packed) * (8 * width), "uint32")),
                )

    @T.inline
    def put(smem, offset, words, operand, tx):
        row = T.alloc_local([1], "int32")
        chunk = T.alloc_local([1], "int32")
        for u in T.unroll(rounds):
            locate(row, chunk, operand, u * threads + tx)
            if row[0] < height and chunk[0] < CHUNKS:
                T.ptx["st.shared.v4.b32"](
                    smem.ptr_to(
                        [
                            offset
                            + row[0] * ROW_BYTES
                            + T.bitwise_xor(chunk[0], T.bitwise_and(row[0], 7)) * CHUNK_BYTES
                        ]
                    ),
                    words[u * 4],
                    words[u * 4 + 1],
                    words[u * 4 + 2],
                    words[u * 4 + 3],
                )

    return fetch, put
