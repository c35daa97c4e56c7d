"""The epilogue of a cut reduction: blocks of a cluster, then clusters, add up their partial sums.

The order of every addition is fixed, so the same call gives the same bits.
"""

from __future__ import annotations

import tvm
from tvm.script import tirx as T

from ..slices import arrive_last, sums_of
from .config import BARRIER_CONSUMERS, WgmmaConfig
from .partial_sums import WORDS, place

# Groups of four items that a thread adds up at once, so that one waits while others load; fewer
# where blocks share the registers of a multiprocessor.
_FLYING = {1: 4, 2: 4, 3: 2, 4: 2}


def reduce(c: WgmmaConfig):
    """Return an inline function that sums a tile over its blocks and writes it to C.

    A block takes a share of the tile. With several slices it leaves its share in ``workspace`` and
    the last of them to arrive adds up all.
    """
    quads_of_row = c.un // 4
    threads = c.consumer_threads
    flying = _FLYING[c.blocks]
    sum_dtype, word = c.item.sums, WORDS[c.item.sums]
    zero = tvm.tirx.const(0, sum_dtype)

    @T.inline
    def locate(quad, number, share, tx):
        # A thread that has nothing left to do reads along with the last quad.
        for u in T.unroll(flying):
            quad[u] = T.min(share[0] + (number * flying + u) * threads + tx, share[1] - 1)

    @T.inline
    def write(C, quad, number, share, tx, total, packed, top, left, m, n, ldc, vector):
        for u in T.unroll(flying):
            row: T.let = top + T.truncdiv(quad[u], quads_of_row)
            column: T.let = left + T.truncmod(quad[u], quads_of_row) * 4
            offset = T.meta_var((number * flying + u) * threads + tx)
            if share[0] + offset < share[1] and row < m and column < n:
                _write_quad(c, C, total, u * 4, packed, row, column, n, ldc, vector)

    @T.inline
    def run(b, partial, C, flag, workspace, counters, cluster, slices, m, n, ldc, vector):
        top: T.let = b.at[1] if c.swapped else b.at[0]
        left: T.let = b.at[0] if c.swapped else b.at[1]
        quads = T.meta_var((b.columns if c.flexible else c.um) * quads_of_row)
        quad = T.alloc_local([flying], "int32")
        total = T.alloc_local([4 * flying], sum_dtype)
        value = T.alloc_local([4 * flying], sum_dtype)
        address = T.alloc_local([1], "uint32")
        packed = T.alloc_local([2], "uint32")
        share = T.alloc_local([2], "int32")
        share[0] = T.truncdiv(b.rank[0] * quads, cluster)
        share[1] = T.truncdiv((b.rank[0] + 1) * quads, cluster)
        for i in T.serial(T.truncdiv(share[1] - share[0] + threads * flying - 1, threads * flying)):
            locate(quad, i, share, b.tx)
            for u in T.unroll(4 * flying):
                total[u] = zero
            for r in T.serial(cluster):
                for u in T.unroll(flying):
                    T.ptx.mapa.shared__cluster.u32(
                        address[0],
                        T.cuda.cvta_generic_to_shared(
                            partial.ptr_to(
                                [
                                    place(
                                        c,
                                        T.truncdiv(quad[u], quads_of_row),
                                        T.truncmod(quad[u], quads_of_row) * 4,
                                    )
                                ]
                            )
                        ),
                        T.cast(r, "uint32"),
                    )
                    T.ptx[f"ld.shared::cluster.v4.{word}"](
                        value[4 * u],
                        value[4 * u + 1],
                        value[4 * u + 2],
                        value[4 * u + 3],
                        address[0],
                    )
                for u in T.unroll(4 * flying):
                    total[u] = total[u] + value[u]
            if slices > 1:
                for u in T.unroll(flying):
                    # Threads at the end write the last quad's sums once more, the same ones.
                    T.ptx[f"st.global.v4.{word}"](
                        workspace.ptr_to(
                            [sums_of(b.work[1], b.work[0], b.tiles, 4 * quads) + quad[u] * 4]
                        ),
                        total[4 * u],
                        total[4 * u + 1],
                        total[4 * u + 2],
                        total[4 * u + 3],
                    )
            else:
                write(C, quad, i, share, b.tx, total, packed, top, left, m, n, ldc, vector)
        if slices > 1:
            T.ptx.bar.sync(BARRIER_CONSUMERS, threads)
            if b.tx == 0:
                flag[0] = arrive_last(counters, b.work[0] * cluster + b.rank[0], slices)
            T.ptx.bar.sync(BARRIER_CONSUMERS, threads)
            if flag[0] != 0:
                for i in T.serial(
                    T.truncdiv(share[1] - share[0] + threads * flying - 1, threads * flying)
                ):
                    locate(quad, i, share, b.tx)
                    for u in T.unroll(4 * flying):
                        total[u] = zero
                    for s in T.serial(slices):
                        for u in T.unroll(flying):
                            T.ptx[f"ld.global.cg.v4.{word}"](
                                value[4 * u],
                                value[4 * u + 1],
                                value[4 * u + 2],
                                value[4 * u + 3],
                                workspace.ptr_to(
                                    [sums_of(s, b.work[0], b.tiles, 4 * quads) + quad[u] * 4]
                                ),
                            )
                        for u in T.unroll(4 * flying):
                            total[u] = total[u] + value[u]
                    write(C, quad, i, share, b.tx, total, packed, top, left, m, n, ldc, vector)

    return run


@T.inline
def _write_quad(c, C, total, at, packed, row, column, n, ldc, vector):
    """Write four columns of a row of C that begin inside of it."""
    if c.wide_output:
        if vector > 2:
            T.ptx[f"st.global.v4.{WORDS[c.item.sums]}"](
                C.ptr_to([T.cast(row, "int64") * ldc + column]),
                total[at + 0],
                total[at + 1],
                total[at + 2],
                total[at + 3],
            )
        else:
            for u in T.unroll(4):
                if column + u < n:
                    C[T.cast(row, "int64") * ldc + (column + u)] = total[at + u]
    else:
        if vector > 2:
            if c.out_dtype == "float16":
                T.ptx["cvt.rn.f16x2.f32"](packed[0], total[at + 1], total[at + 0])
                T.ptx["cvt.rn.f16x2.f32"](packed[1], total[at + 3], total[at + 2])
            else:
                T.ptx["cvt.rn.bf16x2.f32"](packed[0], total[at + 1], total[at + 0])
                T.ptx["cvt.rn.bf16x2.f32"](packed[1], total[at + 3], total[at + 2])
            T.ptx["st.global.v2.b32"](
                C.ptr_to([T.cast(row, "int64") * ldc + column]), packed[0], packed[1]
            )
        else:
            for u in T.unroll(4):
                if column + u < n:
                    C[T.cast(row, "int64") * ldc + (column + u)] = T.cast(
                        total[at + u], c.out_dtype
                    )
