"""The producer for rows that start anywhere: TMA by several tensor maps of each operand.

TMA needs a stride that is a multiple of 16 bytes and an address that is one. Of rows as many apart
as 16 bytes have items, the stride is such a multiple, and all of them start at the same place
within 16 bytes. So the rows of each residue modulo that number have a map of their own, from the
multiple of 16 bytes at or before the first of them on; what lies between is skipped by the copy's
coordinate.

The rows of a tile then lie in shared memory by residues. The tensor cores don't mind; the partial
sums are put in order.
"""

from __future__ import annotations

from tvm.script import tirx as T

from ..items import ROW_BYTES
from .config import WgmmaConfig

_COPY = "cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes"


def load_residue(c: WgmmaConfig, *, along_p: bool):
    """Return an inline function that loads one operand's part of a tile's steps."""
    height = c.rows if along_p else c.columns
    axis, offset = (0, c.ring_offset) if along_p else (1, c.ring_offset + c.p_bytes)
    box_bytes = height // c.residues * ROW_BYTES

    def copy_all(b, maps, shift, top, k0):
        for residue, tensor_map in enumerate(maps):
            T.evaluate(
                T.ptx[_COPY](
                    b.smem.ptr_to([offset + residue * box_bytes + b.ring[0] * c.slot_bytes]),
                    T.address_of(tensor_map),
                    k0[0] + shift[residue],
                    top[0],
                    b.full.ptr_to([b.ring[0]]),
                )
            )

    @T.inline
    def load(b, operand):
        shift = T.alloc_local([c.residues], "int32")
        top = T.alloc_local([1], "int32")
        k0 = T.alloc_local([1], "int32")
        for i in T.unroll(c.residues):
            first: T.let = T.cast(operand.skip, "int64") + i * operand.stride
            shift[i] = T.cast(T.bitwise_and(first, T.int64(c.residues - 1)), "int32")
        top[0] = T.truncdiv(b.at[axis], c.residues)
        k0[0] = b.work[2] * c.step
        for _ in T.serial(b.work[3]):
            T.cuda.mbarrier_wait(b.empty.ptr_to([b.ring[0]]), b.ring[1] ^ 1)
            T.ptx.mbarrier.arrive.expect_tx.shared.b64(
                b.full.ptr_to([b.ring[0]]), T.uint32(height * ROW_BYTES)
            )
            copy_all(b, operand.maps, shift, top, k0)
            k0[0] = k0[0] + c.step
            b.ring[0] = b.ring[0] + 1
            if b.ring[0] == b.depth:
                b.ring[0] = 0
                b.ring[1] = b.ring[1] ^ 1

    return load
