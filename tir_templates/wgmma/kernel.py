"""The whole tile program: a PrimFunc with all extents, strides and the grid symbolic."""

from __future__ import annotations

import tvm
from tvm.script import tirx as T

from ..items import ROW_BYTES
from .barriers import make_barriers
from .block import Block, Operand
from .config import WgmmaConfig
from .consume import consumer, finish
from .produce import prepare, producer
from .reduce import reduce
from .shared_memory import MAX_BLOCK_BYTES
from .walk import first_tile


def gemm_wgmma(c: WgmmaConfig) -> tvm.tirx.PrimFunc:
    """Return the tile program of a configuration.

    The compiled kernel has no host code, and those of the parameters below that it needs. ``x_map``
    and ``y_map`` are tensor maps of the operands along p and q, k contiguous: copies of ``step``
    items of ``box_x`` and ``box_y`` rows, swizzled in 128 bytes. With ``loads="residue"`` there is
    one for the rows of each residue modulo ``residues``, of 16 bytes more and not swizzled, and
    ``a_skip``, ``a_m``, ``b_skip`` and ``b_n`` are as below. ``a``, ``b`` are the operands of
    ``loads="strided"``, at multiples of 16 bytes, with the items to skip and both strides. ``c``
    comes with ``ldc`` and ``vector_c``, the items that every row of C may be stored in at once
    (those of 16 bytes, 2 or 1). ``grid`` is the number of blocks, ``depth`` the slots of the ring
    that the launch has shared memory for. Where the reduction is cut, ``cluster`` blocks of a tile
    add up in shared memory, and ``slices`` clusters of a tile in ``workspace``, counted by
    ``counters`` (zero, before and after); each part has ``part_steps`` steps, the first
    ``longer_parts`` one more. A program of several widths gets a tile's ``columns``, and
    ``q_groups``: how many tiles, or clusters of them, lie along q.
    """
    make, begin = make_barriers(c), first_tile(c)
    items, sum_dtype = f"uint{8 * c.item.bytes}", c.item.sums
    # Integers are added and stored as their bits.
    out = c.stored_dtype
    start = prepare(c)
    produce, consume, end = producer(c), consumer(c), finish(c, reduce(c))

    @T.prim_func
    def main(
        x_map: T.TensorMap(),
        x_map1: T.TensorMap(),
        x_map2: T.TensorMap(),
        x_map3: T.TensorMap(),
        x_map4: T.TensorMap(),
        x_map5: T.TensorMap(),
        x_map6: T.TensorMap(),
        x_map7: T.TensorMap(),
        y_map: T.TensorMap(),
        y_map1: T.TensorMap(),
        y_map2: T.TensorMap(),
        y_map3: T.TensorMap(),
        y_map4: T.TensorMap(),
        y_map5: T.TensorMap(),
        y_map6: T.TensorMap(),
        y_map7: T.TensorMap(),
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
        depth: T.int32,
        workspace_: T.handle,
        counters_: T.handle,
        cluster: T.int32,
        slices: T.int32,
        part_steps: T.int32,
        longer_parts: T.int32,
        columns: T.int32,
        q_groups: T.int32,
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
        x_maps = T.meta_var((x_map, x_map1, x_map2, x_map3, x_map4, x_map5, x_map6, x_map7))
        y_maps = T.meta_var((y_map, y_map1, y_map2, y_map3, y_map4, y_map5, y_map6, y_map7))
        p, q = T.meta_var(
            _operands(c, x_maps, y_maps, (A, a_skip, m, a_m, a_k), (B, b_skip, n, b_n, b_k))
        )

        T.device_entry()
        T.attr({"tirx.launch_bounds_min_blocks_per_sm": c.blocks})
        # What is computed once goes to registers: an expression would be copied to its every use.
        rank = T.alloc_local([1], "int32")
        if c.split:
            rank[0] = T.cta_id_in_cluster([cluster])
        elif c.cluster > 1:
            rank[0] = T.cta_id_in_cluster([c.cluster])
        else:
            rank[0] = 0
        block = T.cta_id([grid])
        tx = T.thread_id([c.threads])
        p_extent: T.let = n if c.swapped else m
        q_extent: T.let = m if c.swapped else n
        width: T.let = columns if c.flexible else T.int32(c.columns)
        p_tiles: T.let = T.truncdiv(p_extent + c.rows * c.cluster_p - 1, c.rows * c.cluster_p)
        q_tiles: T.let = (
            q_groups
            if c.flexible
            else T.truncdiv(q_extent + c.columns * c.cluster_q - 1, c.columns * c.cluster_q)
        )
        # Of several widths the narrowest sets the slots: as many of the widest may not fit.
        smem = T.alloc_buffer(
            (min(c.shared_bytes, MAX_BLOCK_BYTES),), "uint8", scope="shared.dyn", align=1024
        )
        full = T.decl_buffer((c.slots,), "uint64", data=smem.data, scope="shared.dyn")
        empty = T.decl_buffer(
            (c.slots,), "uint64", data=smem.data, byte_offset=c.empty_offset, scope="shared.dyn"
        )
        order = T.decl_buffer(
            (2,), "uint64", data=smem.data, byte_offset=c.order_offset, scope="shared.dyn"
        )
        # Where the ring was, once it has been used.
        partial = T.decl_buffer(
            (c.sum_bytes // 4,),
            sum_dtype,
            data=smem.data,
            byte_offset=c.ring_offset,
            scope="shared.dyn",
        )
        flag = T.decl_buffer(
            (1,), "int32", data=smem.data, byte_offset=c.flag_offset, scope="shared.dyn"
        )
        warp: T.let = T.tvm_warp_shuffle(T.uint32(0xFFFFFFFF), tx // 32, 0, 32, 32)
        lane: T.let = tx % 32
        at = T.alloc_local([2], "int32")
        ring = T.alloc_local([2], "int32")
        ring[0] = 0
        ring[1] = 0
        # This block's tile, slice, and the steps of the reduction that it does: from, how many.
        work = T.alloc_local([4], "int32")
        own = T.meta_var(
            Block(
                smem,
                full,
                empty,
                order,
                work,
                at,
                ring,
                rank,
                c.slots if c.loads == "residue" else depth,
                depth,
                T.truncdiv(grid, c.cluster),
                p_tiles * q_tiles,
                p_tiles,
                q_tiles,
                width,
                c.p_bytes + width * ROW_BYTES,
                tx,
                warp,
                lane,
            )
        )
        if warp == c.consumers * 4 and T.cuda.elect_sync() != T.uint32(0):
            start(p, q)
            make(smem, full, empty, order)
        begin(own, block, k, cluster, slices, part_steps, longer_parts)
        if warp >= c.consumers * 4:
            produce(own, p, q, k)
        else:
            consume(own, partial, C, m, n, ldc, vector_c)
        end(own, partial, C, flag, workspace, counters, cluster, slices, m, n, ldc, vector_c)

    return main


def _operands(c: WgmmaConfig, x_maps, y_maps, a, b) -> tuple[Operand, Operand]:
    """Pair the operands along p and q with their tensor maps."""
    x, y = (b, a) if c.swapped else (a, b)
    count = {"tma": 1, "residue": c.residues, "strided": 0}[c.loads]
    return Operand(x_maps[:count], *x), Operand(y_maps[:count], *y)
