"""Sums of warps that share a reduction, and then of the blocks of a cluster, in a fixed order."""

from __future__ import annotations

import tvm
from tvm.script import tirx as T

from .config import WARP, DirectConfig
from .place import register_of

# How instructions that move sums name their type.
_WORDS = {"float32": "f32", "uint32": "u32"}
_MAX_CLUSTER = 8


def add_up(c: DirectConfig):
    """Return inline functions: one leaves a warp's sums for others, one adds up a run of them.

    In shared memory, threads of a warp are side by side, with as much of a run as one access takes.
    """
    width = min(c.run, 4)
    moves = c.run // width
    word, zero = _WORDS[c.item.sums], tvm.tirx.const(0, c.item.sums)
    warp_items = c.accumulators * WARP

    def place(warp, run, move, lane):
        return warp * warp_items + ((run * moves + move) * WARP + lane) * width

    @T.inline
    def leave(shared, sums, warp, lane):
        for run in T.unroll(c.runs):
            for move in T.unroll(moves):
                T.ptx[f"st.shared.v{width}.{word}"](
                    shared.ptr_to([place(warp, run, move, lane)]),
                    *[sums[register_of(c, run, move * width + i)] for i in range(width)],
                )

    @T.inline
    def collect(shared, total, run, along_p, lane):
        value = T.alloc_local([c.run], c.item.sums)
        for i in T.unroll(c.run):
            total[i] = zero
        for k in T.unroll(c.warps_k):
            for move in T.unroll(moves):
                T.ptx[f"ld.shared.v{width}.{word}"](
                    *[value[move * width + i] for i in range(width)],
                    shared.ptr_to([place(k * c.warps_p + along_p, run, move, lane)]),
                )
            for i in T.unroll(c.run):
                total[i] = total[i] + value[i]

    @T.inline
    def share(shared, total, run, along_p, lane):
        # Where this thread alone has read.
        for move in T.unroll(moves):
            T.ptx[f"st.shared.v{width}.{word}"](
                shared.ptr_to([place(along_p, run, move, lane)]),
                *[total[move * width + i] for i in range(width)],
            )

    @T.inline
    def gather(shared, total, run, along_p, lane, cluster):
        value = T.alloc_local([c.run * _MAX_CLUSTER], c.item.sums)
        address = T.alloc_local([1], "uint32")
        for r in T.unroll(_MAX_CLUSTER):
            for i in T.unroll(c.run):
                value[r * c.run + i] = zero
            if r < cluster:
                for move in T.unroll(moves):
                    T.ptx.mapa.shared__cluster.u32(
                        address[0],
                        T.cuda.cvta_generic_to_shared(
                            shared.ptr_to([place(along_p, run, move, lane)])
                        ),
                        T.cast(r, "uint32"),
                    )
                    T.ptx[f"ld.shared::cluster.v{width}.{word}"](
                        *[value[r * c.run + move * width + i] for i in range(width)], address[0]
                    )
        for i in T.unroll(c.run):
            total[i] = value[i]
        for r in T.unroll(_MAX_CLUSTER - 1):
            for i in T.unroll(c.run):
                total[i] = total[i] + value[(r + 1) * c.run + i]

    return leave, collect, share, gather
