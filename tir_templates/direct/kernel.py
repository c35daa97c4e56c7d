"""The whole direct tile program: a PrimFunc with all extents, strides and the grid symbolic."""

from __future__ import annotations

import tvm
from tvm.script import tirx as T

from ..slices import arrive_last
from ..walk import cluster_shift
from .add_up import add_up, add_up_slices
from .config import CHUNK_BYTES, THREAD_WORDS, WARP, DirectConfig
from .load import WIDTHS
from .place import column_of, item_of, register_of, row_of
from .steps import steps
from .store import store


def gemm_direct(c: DirectConfig) -> tvm.tirx.PrimFunc:
    """Return the tile program of a configuration.

    ``a`` and ``b`` are at multiples of 16 bytes, with the items to skip; k is contiguous in both,
    rows are ``a_m`` and ``b_n`` items apart. Rows of C may be stored ``vector_c`` items at once.
    ``cluster`` blocks share the reduction of a tile, and so do ``slices`` clusters, which add up in
    ``workspace``, counted by ``counters`` (zero, before and after).
    """
    aligned_steps, around_steps = steps(c)
    leave, collect, share, gather = add_up(c)
    keep, collect_slices = add_up_slices(c)
    write = store(c)
    width, stages = c.item.bytes, c.stages
    round_bytes = stages * CHUNK_BYTES
    rows, columns = c.row_lines, c.column_lines
    lines = rows + columns
    zero = tvm.tirx.const(0, c.item.sums)
    items = c.um * c.un

    @T.prim_func
    def main(
        a: T.handle,
        a_skip: T.int32,
        a_m: T.int64,
        b: T.handle,
        b_skip: T.int32,
        b_n: T.int64,
        c_: T.handle,
        ldc: T.int32,
        vector_c: T.int32,
        m: T.int32,
        n: T.int32,
        k: T.int32,
        grid: T.int32,
        workspace_: T.handle,
        counters_: T.handle,
        cluster: T.int32,
        slices: T.int32,
    ):
        T.func_attr({"global_symbol": "main", "tirx.noalias": True})
        a_bytes = T.int64()
        b_bytes = T.int64()
        c_items = T.int64()
        w_items = T.int64()
        s_items = T.int64()
        A = T.match_buffer(a, (a_bytes,), "uint8", align=16)
        B = T.match_buffer(b, (b_bytes,), "uint8", align=16)
        C = T.match_buffer(c_, (c_items,), c.stored_dtype, align=2)
        workspace = T.match_buffer(workspace_, (w_items,), c.item.sums, align=16)
        counters = T.match_buffer(counters_, (s_items,), "int32")
        x, y = T.meta_var((B, A) if c.swapped else (A, B))
        x_skip, y_skip = T.meta_var((b_skip, a_skip) if c.swapped else (a_skip, b_skip))
        x_line, y_line = T.meta_var((b_n, a_m) if c.swapped else (a_m, b_n))
        x_lines, y_lines = T.meta_var((n, m) if c.swapped else (m, n))

        T.device_entry()
        T.attr({"tirx.launch_bounds_min_blocks_per_sm": c.blocks})
        rank = T.alloc_local([1], "int32")
        rank[0] = T.cta_id_in_cluster([cluster])
        block = T.cta_id([grid])
        tx = T.thread_id([c.threads])
        shared = T.alloc_buffer((c.sum_bytes // 4,), c.item.sums, scope="shared", align=16)
        warp: T.let = T.truncdiv(tx, WARP)
        lane: T.let = T.truncmod(tx, WARP)
        along_p: T.let = T.truncmod(warp, c.warps_p)
        along_k: T.let = T.truncdiv(warp, c.warps_p)
        words = T.alloc_local([stages * lines * THREAD_WORDS], "uint32")
        sums = T.alloc_local([c.accumulators], c.item.sums)
        total = T.alloc_local([c.run], c.item.sums)
        packed = T.alloc_local([c.run], "uint32")
        x_first = T.alloc_local([rows], "int64")
        y_first = T.alloc_local([columns], "int64")
        at = T.alloc_local([6], "int32")
        last = T.alloc_local([1], "int32")

        T.ptx.griddepcontrol.launch_dependents()
        shift: T.let = cluster_shift(cluster)
        number: T.let = T.shift_right(block, shift)
        p_tiles: T.let = T.truncdiv(x_lines + c.rows - 1, c.rows)
        tiles: T.let = p_tiles * T.truncdiv(y_lines + c.columns - 1, c.columns)
        # The tile, and the slice of its reduction.
        at[0] = number
        at[1] = 0
        if c.slices and slices > 1:
            at[1] = T.truncdiv(number, tiles)
            at[0] = number - at[1] * tiles
        # The tile's first row and column, as the instructions have them.
        at[5] = T.truncdiv(at[0], p_tiles)
        at[4] = (at[0] - at[5] * p_tiles) * c.rows + along_p * c.warp_rows
        at[5] = at[5] * c.columns
        # The first byte of k of this warp's rounds, the thread of the line, from round to round.
        at[1] = ((T.shift_left(at[1], shift) + rank[0]) * c.warps_k + along_k) * round_bytes
        at[2] = T.truncmod(lane, 4)
        at[3] = T.shift_left(c.warps_k * round_bytes, shift) * (slices if c.slices else 1)
        end: T.let = k * width
        # Lines that are not there are read as the last one.
        for i in T.unroll(rows):
            x_first[i] = (
                T.cast(T.min(at[4] + row_of(c, i, lane), x_lines - 1), "int64") * x_line + x_skip
            ) * width
        for j in T.unroll(columns):
            y_first[j] = (
                T.cast(T.min(at[5] + column_of(c, j, T.truncdiv(lane, 4)), y_lines - 1), "int64")
                * y_line
                + y_skip
            ) * width
        for i in T.unroll(c.accumulators):
            sums[i] = zero
        places: T.let = (
            T.bitwise_or(
                T.bitwise_or(T.cast(x_line, "int32"), T.cast(y_line, "int32")),
                T.bitwise_or(T.bitwise_or(x_skip, y_skip), k),
            )
            * width
        )
        T.ptx.griddepcontrol.wait()
        if T.bitwise_and(places, WIDTHS[0] - 1) == 0:
            aligned_steps(x, y, x_first, y_first, words, sums, at, end, WIDTHS[0])
        else:
            if T.bitwise_and(places, WIDTHS[1] - 1) == 0:
                aligned_steps(x, y, x_first, y_first, words, sums, at, end, WIDTHS[1])
            else:
                if T.bitwise_and(places, WIDTHS[2] - 1) == 0:
                    aligned_steps(x, y, x_first, y_first, words, sums, at, end, WIDTHS[2])
                else:
                    around_steps(x, y, x_first, y_first, words, sums, at, end)
        top, left = T.meta_var((at[5], at[4]) if c.swapped else (at[4], at[5]))
        if c.warps_k == 1 and cluster == 1:
            for u in T.unroll(c.runs):
                for i in T.unroll(c.run):
                    total[i] = sums[register_of(c, u, i)]
                row, column = T.meta_var(item_of(c, u, lane))
                write(C, total, packed, top + row, left + column, m, n, ldc, vector_c)
        else:
            leave(shared, sums, warp, lane)
            T.cuda.cta_sync()
            if cluster > 1:
                for u in T.unroll(c.runs):
                    if T.truncmod(u, c.warps_k) == along_k:
                        collect(shared, total, u, along_p, lane)
                        share(shared, total, u, along_p, lane)
                T.ptx["barrier.cluster.arrive.release.aligned"]()
                T.ptx["barrier.cluster.wait.acquire.aligned"]()
            for u in T.unroll(c.runs):
                if T.truncmod(u, c.warps_k) == along_k and rank[0] == 0:
                    if cluster > 1:
                        gather(shared, total, u, along_p, lane, cluster)
                    else:
                        collect(shared, total, u, along_p, lane)
                    row, column = T.meta_var(item_of(c, u, lane))
                    if c.slices and slices > 1:
                        own: T.let = T.cast(number, "int64") * items
                        keep(workspace, own, total, u, along_p, lane)
                    else:
                        write(C, total, packed, top + row, left + column, m, n, ldc, vector_c)
            if cluster > 1:
                T.ptx["barrier.cluster.arrive.relaxed.aligned"]()
                T.ptx["barrier.cluster.wait.acquire.aligned"]()
            if c.slices and slices > 1 and rank[0] == 0:
                last[0] = 0
                T.cuda.cta_sync()
                # Not as above, so that nothing of it is kept in registers meanwhile.
                at[1] = T.truncdiv(T.shift_right(grid, shift), slices)
                at[0] = T.truncmod(number, at[1])
                if tx == 0:
                    last[0] = arrive_last(counters, at[0], slices)
                if T.cuda.syncthreads_or(last[0]) != 0:
                    first: T.let = T.cast(at[0], "int64") * items
                    apart: T.let = T.cast(at[1], "int64") * items
                    collect_slices(workspace, first, apart, sums, slices, along_p, along_k, lane)
                    leave(shared, sums, warp, lane)
                    T.cuda.cta_sync()
                    for u in T.unroll(c.runs):
                        if T.truncmod(u, c.warps_k) == along_k:
                            collect(shared, total, u, along_p, lane)
                            row, column = T.meta_var(item_of(c, u, lane))
                            write(C, total, packed, top + row, left + column, m, n, ldc, vector_c)

    return main
