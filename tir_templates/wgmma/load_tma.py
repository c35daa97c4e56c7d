"""The producer with TMA: one thread that fills the ring, in turn with what the consumers free."""

from __future__ import annotations

from tvm.script import tirx as T

from ..items import ROW_BYTES
from .block import next_slot
from .config import WgmmaConfig

_COPY = "cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes"
_MULTICAST = _COPY + ".multicast::cluster"


@T.inline
def expect(b, slot):
    """Expect the bytes of a slot, which may be before they can be asked for."""
    T.ptx.mbarrier.arrive.expect_tx.shared.b64(
        b.full.ptr_to([slot]), T.cast(b.slot_bytes, "uint32")
    )


def load_tma(c: WgmmaConfig):
    """Return an inline function that loads the steps of a block's tile, given the tensor maps.

    Rows and steps outside of the operands arrive as zeros. Where ``expected`` is not 0 the bytes of
    the next slot are expected already, and it is set to 0.
    """
    p_share = c.rows // c.cluster_q
    # Blocks that get this block's share: those along q of the p operand, those along p of the q's.
    p_mask = sum(1 << (c.cluster_p * j) for j in range(c.cluster_q))
    q_mask = (1 << c.cluster_p) - 1

    @T.inline
    def load(b, expected, p_map, q_map):
        q_share: T.let = T.truncdiv(b.columns, c.cluster_p)
        for step in T.serial(b.work[3]):
            if expected[0] != 0:
                expected[0] = 0
            else:
                T.cuda.mbarrier_wait(b.empty.ptr_to([b.ring[0]]), b.ring[1] ^ 1)
                expect(b, b.ring[0])
            if c.cluster_q > 1:
                T.ptx[_MULTICAST](
                    b.smem.ptr_to(
                        [
                            c.ring_offset
                            + b.ring[0] * b.slot_bytes
                            + T.truncdiv(b.rank[0], c.cluster_p) * (p_share * ROW_BYTES)
                        ]
                    ),
                    T.address_of(p_map),
                    (b.work[2] + step) * c.step,
                    b.at[0] + T.truncdiv(b.rank[0], c.cluster_p) * p_share,
                    b.full.ptr_to([b.ring[0]]),
                    T.cast(T.shift_left(p_mask, T.truncmod(b.rank[0], c.cluster_p)), "uint16"),
                )
            else:
                T.ptx[_COPY](
                    b.smem.ptr_to([c.ring_offset + b.ring[0] * b.slot_bytes]),
                    T.address_of(p_map),
                    (b.work[2] + step) * c.step,
                    b.at[0],
                    b.full.ptr_to([b.ring[0]]),
                )
            if c.cluster_p > 1:
                T.ptx[_MULTICAST](
                    b.smem.ptr_to(
                        [
                            c.ring_offset
                            + c.p_bytes
                            + b.ring[0] * b.slot_bytes
                            + T.truncmod(b.rank[0], c.cluster_p) * (q_share * ROW_BYTES)
                        ]
                    ),
                    T.address_of(q_map),
                    (b.work[2] + step) * c.step,
                    b.at[1] + T.truncmod(b.rank[0], c.cluster_p) * q_share,
                    b.full.ptr_to([b.ring[0]]),
                    T.cast(
                        T.shift_left(q_mask, T.truncdiv(b.rank[0], c.cluster_p) * c.cluster_p),
                        "uint16",
                    ),
                )
            else:
                T.ptx[_COPY](
                    b.smem.ptr_to([c.ring_offset + c.p_bytes + b.ring[0] * b.slot_bytes]),
                    T.address_of(q_map),
                    (b.work[2] + step) * c.step,
                    b.at[1],
                    b.full.ptr_to([b.ring[0]]),
                )
            next_slot(b.ring, b.depth)

    return load
