"""The whole tile program: a PrimFunc with all extents, strides and the grid symbolic."""

from __future__ import annotations

import tvm
from tvm.script import tirx as T

from .barriers import make_barriers, meet
from .config import (
    BARRIER_CONSUMERS,
    BARRIER_LOADERS,
    BARRIER_READY,
    CONSUMER_REGISTERS,
    PRODUCER_REGISTERS,
    ROW_BYTES,
    STAGED_PITCH,
    WGMMA_ROWS,
    WgmmaConfig,
)
from .load_strided import load_strided
from .load_tma import load_tma
from .multiply import fence, multiply, release
from .reduce import reduce, stage_sums
from .store import store
from .walk import tile_position


def gemm_wgmma(c: WgmmaConfig) -> tvm.tirx.PrimFunc:
    """Return the tile program of a configuration.

    The compiled kernel has no host code, and those of the parameters below that it needs. ``x_map``
    and ``y_map`` are tensor maps of the operands along p and q, k contiguous: copies of ``step``
    items of ``box_x`` and ``box_y`` rows, swizzled in 128 bytes. ``a``, ``b`` are the operands of
    ``loads="strided"``, at multiples of 16 bytes, with the items to skip and both strides.
    ``c`` comes with ``ldc`` and ``vector_c``, the items that every row of C may be stored in at
    once (those of 16 bytes, 2 or 1). ``grid`` is the number of blocks. Where the reduction is cut,
    ``cluster`` blocks of a tile add up in shared memory, and ``slices`` clusters of a tile in
    ``workspace``, counted by ``counters`` (zero, before and after).
    """
    strided = c.loads == "strided"
    load = load_strided(c) if strided else load_tma(c)
    position, write = tile_position(c), store(c)
    run, pin, free = multiply(c), fence(c), release(c)
    stage, add_up, make = stage_sums(c), reduce(c), make_barriers(c)
    consumers, stages, per_cluster, swapped = c.consumers, c.stages, c.cluster, c.swapped
    items, sum_dtype = f"uint{8 * c.item.bytes}", c.item.sums
    # Integers are added and stored as their bits.
    out = "uint32" if c.out_dtype == "int32" else c.out_dtype
    zero = tvm.tirx.const(0, sum_dtype)
    # From one consumer's rows to the next one's, as descriptors count; in ping-pong they share.
    warpgroup_units = 0 if c.pingpong else c.warpgroup_rows * ROW_BYTES // 16

    @T.prim_func
    def main(
        x_map: T.TensorMap(),
        y_map: T.TensorMap(),
        a: T.handle,
        a_skip: T.int32,
        a_m: T.int64,
        a_k: T.int64,
        b: T.handle,
        b_skip: T.int32,
        b_n: T.int64,
        b_k: T.int64,
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
        a_items = T.int64()
        b_items = T.int64()
        c_items = T.int64()
        w_items = T.int64()
        s_items = T.int64()
        A = T.match_buffer(a, (a_items,), items, align=16)
        B = T.match_buffer(b, (b_items,), items, align=16)
        C = T.match_buffer(c_, (c_items,), out, align=16)
        workspace = T.match_buffer(workspace_, (w_items,), sum_dtype, align=16)
        counters = T.match_buffer(counters_, (s_items,), "int32")
        x_items = T.meta_var((B, b_skip, n, b_n, b_k) if swapped else (A, a_skip, m, a_m, a_k))
        y_items = T.meta_var((A, a_skip, m, a_m, a_k) if swapped else (B, b_skip, n, b_n, b_k))

        T.device_entry()
        T.attr({"tirx.launch_bounds_min_blocks_per_sm": c.blocks})
        if c.split:
            rank = T.cta_id_in_cluster([cluster])
        elif c.cluster > 1:
            rank = T.cta_id_in_cluster([c.cluster])
        else:
            rank = T.meta_var(0)
        block = T.cta_id([grid])
        tx = T.thread_id([c.threads])
        p_extent: T.let = n if swapped else m
        q_extent: T.let = m if swapped else n
        p_tiles: T.let = T.truncdiv(p_extent + c.rows * c.cluster_p - 1, c.rows * c.cluster_p)
        q_tiles: T.let = T.truncdiv(q_extent + c.columns * c.cluster_q - 1, c.columns * c.cluster_q)
        tiles: T.let = p_tiles * q_tiles
        steps: T.let = T.truncdiv(k + c.step - 1, c.step)
        smem = T.alloc_buffer((c.shared_bytes,), "uint8", scope="shared.dyn", align=1024)
        full = T.decl_buffer(
            (stages,), "uint64", data=smem.data, byte_offset=c.barrier_offset, scope="shared.dyn"
        )
        empty = T.decl_buffer(
            (stages,), "uint64", data=smem.data, byte_offset=c.empty_offset, scope="shared.dyn"
        )
        order = T.decl_buffer(
            (2,), "uint64", data=smem.data, byte_offset=c.order_offset, scope="shared.dyn"
        )
        # Where the ring was, once it has been used.
        partial = T.decl_buffer((c.um, c.sum_pitch), sum_dtype, data=smem.data, scope="shared.dyn")
        flag = T.decl_buffer(
            (1,), "int32", data=smem.data, byte_offset=c.flag_offset, scope="shared.dyn"
        )
        warp: T.let = T.tvm_warp_shuffle(T.uint32(0xFFFFFFFF), tx // 32, 0, 32, 32)
        lane: T.let = tx % 32
        at = T.alloc_local([2], "int32")
        ring = T.alloc_local([2], "int32")
        ring[0] = 0
        ring[1] = 0
        # This block's first tile and how it goes on, and the steps of the reduction that it does.
        if c.split:
            unit: T.let = T.truncdiv(block, cluster)
            piece: T.let = T.truncdiv(unit, tiles) * cluster + rank
            first: T.let = T.truncdiv(piece * steps, slices * cluster)
            last: T.let = T.truncdiv((piece + 1) * steps, slices * cluster)
            stride: T.let = tiles
            tile: T.int32 = T.truncmod(unit, tiles)
        else:
            first: T.let = 0
            last: T.let = steps
            stride: T.let = T.truncdiv(grid, per_cluster)
            tile: T.int32 = T.truncdiv(block, per_cluster)

        if warp >= consumers * 4:
            if c.trades_registers:
                T.ptx["setmaxnreg.dec.sync.aligned.u32"](PRODUCER_REGISTERS)
            if warp == consumers * 4 and T.cuda.elect_sync() != T.uint32(0):
                make(full, empty, order, x_map, y_map)
            T.cuda.warp_sync()
            T.ptx.bar.arrive(BARRIER_READY, c.threads)
            if c.cluster > 1:
                # No block may copy into another's ring before that one's barriers exist.
                meet()
            T.ptx.griddepcontrol.wait()
            if strided:
                # Unlike the copies of TMA, these threads' own stores need the barriers to exist.
                T.ptx.bar.sync(BARRIER_LOADERS, c.producer_threads)
                position(at, tile, rank, p_tiles, q_tiles)
                while tile < tiles:
                    load(
                        smem,
                        full,
                        empty,
                        x_items,
                        y_items,
                        k,
                        at,
                        first,
                        last,
                        ring,
                        tx - consumers * 128,
                        lane,
                    )
                    tile = tile + stride
                    position(at, tile, rank, p_tiles, q_tiles)
                T.ptx.griddepcontrol.launch_dependents()
            else:
                if warp == consumers * 4 and T.cuda.elect_sync() != T.uint32(0):
                    while tile < tiles:
                        position(at, tile, rank, p_tiles, q_tiles)
                        load(smem, full, empty, x_map, y_map, at, rank, first, last, ring)
                        tile = tile + stride
                    T.ptx.griddepcontrol.launch_dependents()
                T.cuda.warp_sync()
        else:
            if c.trades_registers:
                T.ptx["setmaxnreg.inc.sync.aligned.u32"](CONSUMER_REGISTERS[consumers])
            wg: T.let = warp // 4
            tid: T.let = tx % 128
            sums = T.alloc_local((c.accumulators,), sum_dtype)
            last_slot = T.alloc_local([1], "int32")
            last_slot[0] = 0
            p_first: T.uint64
            q_first: T.uint64
            T.cuda.wgmma.encode_matrix_descriptor(T.address_of(p_first), smem.ptr_to([0]), 1, 64, 3)
            T.cuda.wgmma.encode_matrix_descriptor(
                T.address_of(q_first), smem.ptr_to([c.q_offset]), 1, 64, 3
            )
            p_descriptor: T.let = p_first + T.cast(wg, "uint64") * T.uint64(warpgroup_units)
            q_descriptor: T.let = q_first
            if c.cluster > 1:
                T.ptx["barrier.cluster.arrive.relaxed.aligned"]()
            T.ptx.bar.sync(BARRIER_READY, c.threads)
            T.ptx.griddepcontrol.wait()
            turn: T.int32 = 1 - wg
            slot: T.int32 = 0
            if c.pingpong:
                tile = tile + wg * stride
                slot = wg * steps
                ring[0] = T.truncmod(slot, stages)
                ring[1] = T.truncmod(T.truncdiv(slot, stages), 2)
            if c.split:
                position(at, tile, rank, p_tiles, q_tiles)
                # A piece may have no steps at all.
                for i in T.unroll(c.accumulators):
                    sums[i] = zero
                run(
                    full,
                    empty,
                    p_descriptor,
                    q_descriptor,
                    sums,
                    ring,
                    last_slot,
                    last - first,
                    tid,
                    rank,
                )
                T.ptx.wgmma.wait_group.sync.aligned(0)
                pin(sums)
                # Every consumer is done with the ring, which the sums overwrite.
                T.ptx.bar.sync(BARRIER_CONSUMERS, c.consumer_threads)
                stage(partial, sums, warp, wg, lane)
            else:
                staged = T.decl_buffer(
                    (consumers * WGMMA_ROWS, STAGED_PITCH),
                    out,
                    data=smem.data,
                    byte_offset=c.staging_offset,
                    scope="shared.dyn",
                )
                while tile < tiles:
                    position(at, tile, rank, p_tiles, q_tiles)
                    if c.pingpong:
                        # The other consumer has issued the last products of its tile.
                        T.cuda.mbarrier_wait(order.ptr_to([wg]), turn)
                        turn = turn ^ 1
                    run(
                        full,
                        empty,
                        p_descriptor,
                        q_descriptor,
                        sums,
                        ring,
                        last_slot,
                        last - first,
                        tid,
                        rank,
                    )
                    if c.pingpong:
                        if tid == 0:
                            T.ptx.mbarrier.arrive.shared.b64(order.ptr_to([1 - wg]), T.uint32(1))
                    T.ptx.wgmma.wait_group.sync.aligned(0)
                    pin(sums)
                    free(empty, last_slot[0], tid, rank)
                    if c.pingpong:
                        slot = slot + consumers * steps
                        ring[0] = T.truncmod(slot, stages)
                        ring[1] = T.truncmod(T.truncdiv(slot, stages), 2)
                    else:
                        at[0] = at[0] + wg * c.warpgroup_rows
                    write(C, staged, sums, at, wg, warp, lane, m, n, ldc, vector_c)
                    tile = tile + stride * (2 if c.pingpong else 1)
        if c.split:
            meet()
            if warp < consumers * 4:
                add_up(
                    C,
                    partial,
                    flag,
                    workspace,
                    counters,
                    tile,
                    tiles,
                    at[1] if swapped else at[0],
                    at[0] if swapped else at[1],
                    rank,
                    cluster,
                    T.truncdiv(unit, tiles),
                    slices,
                    tx,
                    m,
                    n,
                    ldc,
                    vector_c,
                )
            # A block's shared memory must live until its peers have read it.
            meet()
        elif c.cluster > 1:
            if warp < consumers * 4:
                T.ptx["barrier.cluster.wait.acquire.aligned"]()
            meet()

    return main
