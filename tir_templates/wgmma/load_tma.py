"""The producer with TMA: one thread that fills the ring, in turn with what the consumers free."""

from __future__ import annotations

from tvm.script import tirx as T

from .config import ROW_BYTES, WgmmaConfig

_COPY = "cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes"
_MULTICAST = _COPY + ".multicast::cluster"


def load_tma(c: WgmmaConfig):
    """Return an inline function that loads the steps [first, last) of the tile at ``at``.

    ``ring`` holds the slot and the phase; both go on from tile to tile. Rows and steps outside of
    the operands arrive as zeros.
    """
    p_share, q_share = c.rows // c.cluster_q, c.columns // c.cluster_p
    # Blocks that get this block's share: those along q of the p operand, those along p of the q's.
    p_mask = sum(1 << (c.cluster_p * j) for j in range(c.cluster_q))
    q_mask = (1 << c.cluster_p) - 1

    @T.inline
    def load(smem, full, empty, p_map, q_map, at, rank, first, last, ring):
        for step in T.serial(last - first):
            T.cuda.mbarrier_wait(empty.ptr_to([ring[0]]), ring[1] ^ 1)
            T.ptx.mbarrier.arrive.expect_tx.shared.b64(
                full.ptr_to([ring[0]]), T.uint32(c.p_bytes + c.q_bytes)
            )
            if c.cluster_q > 1:
                T.ptx[_MULTICAST](
                    smem.ptr_to(
                        [
                            ring[0] * c.p_bytes
                            + T.truncdiv(rank, c.cluster_p) * (p_share * ROW_BYTES)
                        ]
                    ),
                    T.address_of(p_map),
                    (first + step) * c.step,
                    at[0] + T.truncdiv(rank, c.cluster_p) * p_share,
                    full.ptr_to([ring[0]]),
                    T.cast(T.shift_left(p_mask, T.truncmod(rank, c.cluster_p)), "uint16"),
                )
            else:
                T.ptx[_COPY](
                    smem.ptr_to([ring[0] * c.p_bytes]),
                    T.address_of(p_map),
                    (first + step) * c.step,
                    at[0],
                    full.ptr_to([ring[0]]),
                )
            if c.cluster_p > 1:
                T.ptx[_MULTICAST](
                    smem.ptr_to(
                        [
                            c.q_offset
                            + ring[0] * c.q_bytes
                            + T.truncmod(rank, c.cluster_p) * (q_share * ROW_BYTES)
                        ]
                    ),
                    T.address_of(q_map),
                    (first + step) * c.step,
                    at[1] + T.truncmod(rank, c.cluster_p) * q_share,
                    full.ptr_to([ring[0]]),
                    T.cast(
                        T.shift_left(q_mask, T.truncdiv(rank, c.cluster_p) * c.cluster_p), "uint16"
                    ),
                )
            else:
                T.ptx[_COPY](
                    smem.ptr_to([c.q_offset + ring[0] * c.q_bytes]),
                    T.address_of(q_map),
                    (first + step) * c.step,
                    at[1],
                    full.ptr_to([ring[0]]),
                )
            ring[0] = ring[0] + 1
            if ring[0] == c.stages:
                ring[0] = 0
                ring[1] = ring[1] ^ 1

    return load
