"""Sums of warps that share a reduction, of the blocks of a cluster, and of clusters, in an order.

It is fixed, so the same call gives the same bits.
"""

from __future__ import annotations

from functools import partial

import tvm
from tvm.script import tirx as T

from .config import WARP, DirectConfig
from .place import register_of

# How instructions that move sums name their type.
_WORDS = {"float32": "f32", "uint32": "u32"}
_MAX_CLUSTER = 8
# Sums of slices that a thread has in flight: of several slices where it has few of each. Products
# of 8-bit floats leave fewer registers.
_FLYING_SUMS, _FLYING_FLOAT8_SUMS = 32, 16


def place_of(c: DirectConfig, warp, run, move, lane):
    """Return where a part of a run lies among sums of warps.

    Threads of a warp are side by side, with as much of a run as one access takes.
    """
    moves = c.run // _width(c)
    return warp * (c.accumulators * WARP) + ((run * moves + move) * WARP + lane) * _width(c)


def _width(c: DirectConfig) -> int:
    """Items of one access."""
    return min(c.run, 4)


def add_up(c: DirectConfig):
    """Return inline functions: one leaves a warp's sums for others, one adds up a run of them.

    Two more do so among the blocks of a cluster. All sums are in shared memory.
    """
    width = _width(c)
    moves = c.run // width
    word, zero = _WORDS[c.item.sums], tvm.tirx.const(0, c.item.sums)
    place = partial(place_of, c)

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


def add_up_slices(c: DirectConfig):
    """Return inline functions: one leaves a run of a tile's sums in the workspace, one adds up all.

    ``first`` is where the tile's sums begin, those of one slice or of the first. The warps that
    share a reduction share the slices as well: what each has added up is its ``sums`` again.
    """
    width = _width(c)
    moves = c.run // width
    word, zero = _WORDS[c.item.sums], tvm.tirx.const(0, c.item.sums)
    own = c.accumulators
    most = _FLYING_FLOAT8_SUMS if c.dtype == "float8_e4m3fn" else _FLYING_SUMS
    flying = max(1, most // own)

    @T.inline
    def keep(workspace, first, total, run, along_p, lane):
        for move in T.unroll(moves):
            T.ptx[f"st.global.v{width}.{word}"](
                workspace.ptr_to([first + place_of(c, along_p, run, move, lane)]),
                *[total[move * width + i] for i in range(width)],
            )

    @T.inline
    def load(workspace, first, value, at, along_p, lane):
        for run in T.unroll(c.runs):
            for move in T.unroll(moves):
                T.ptx[f"ld.global.cg.v{width}.{word}"](
                    *[value[at + run * c.run + move * width + i] for i in range(width)],
                    workspace.ptr_to([first + place_of(c, along_p, run, move, lane)]),
                )

    @T.inline
    def collect_slices(workspace, first, apart, sums, slices, along_p, along_k, lane):
        value = T.alloc_local([flying * own], c.item.sums)
        number = T.alloc_local([1], "int32")
        for i in T.unroll(own):
            sums[i] = zero
        number[0] = along_k
        while number[0] < slices:
            for f in T.unroll(flying):
                for i in T.unroll(own):
                    value[f * own + i] = zero
                if number[0] + f * c.warps_k < slices:
                    begin: T.let = first + T.cast(number[0] + f * c.warps_k, "int64") * apart
                    load(workspace, begin, value, f * own, along_p, lane)
            for f in T.unroll(flying):
                for run in T.unroll(c.runs):
                    for i in T.unroll(c.run):
                        sums[register_of(c, run, i)] = (
                            sums[register_of(c, run, i)] + value[f * own + run * c.run + i]
                        )
            number[0] = number[0] + flying * c.warps_k

    return keep, collect_slices
