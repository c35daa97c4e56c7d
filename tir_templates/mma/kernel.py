"""The whole tile program: a PrimFunc with all extents, strides and the grid symbolic."""

from __future__ import annotations

import tvm
from tvm.script import tirx as T

from ..items import ROW_BYTES
from .config import CHUNKS, WARP, MmaConfig
from .load import copy_rows, gather_rows
from .multiply import multiply
from .store import store
from .walk import tile_position


def gemm_mma(c: MmaConfig) -> tvm.tirx.PrimFunc:
    """Return the tile program of a configuration.

    The parameters are those of ``wgmma``'s program for plain loads: ``a`` and ``b`` at multiples of
    16 bytes, with the items to skip and both strides; ``c`` with ``ldc`` and ``vector_c``, the
    items that every row of C may be stored in at once; ``grid``, the number of blocks. Where
    ``loads="async"``, operands begin at multiples of 16 bytes and so do their rows.
    """
    position, run, write = tile_position(c), multiply(c), store(c)
    items, sum_dtype, stages = f"uint{8 * c.item.bytes}", c.item.sums, c.stages
    out = c.stored_dtype
    zero = tvm.tirx.const(0, sum_dtype)
    gathered = c.loads == "strided"
    copy_a, copy_b = copy_rows(c, c.um), copy_rows(c, c.un)
    fetch_a, put_a = gather_rows(c, c.um)
    fetch_b, put_b = gather_rows(c, c.un)
    a_words, b_words = (4 * -(-rows * CHUNKS // c.threads) for rows in (c.um, c.un))
    b_offset = c.um * ROW_BYTES

    @T.inline
    def copy(smem, slot, x, y, k, at, step, tx):
        copy_a(smem, slot * c.stage_bytes, x, k, at[0], step * c.step, tx)
        copy_b(smem, slot * c.stage_bytes + b_offset, y, k, at[1], step * c.step, tx)

    @T.prim_func
    def main(
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
    ):
        T.func_attr({"global_symbol": "main", "tirx.noalias": True})
        a_items = T.int64()
        b_items = T.int64()
        c_items = T.int64()
        A = T.match_buffer(a, (a_items,), items, align=16)
        B = T.match_buffer(b, (b_items,), items, align=16)
        C = T.match_buffer(c_, (c_items,), out, align=16)
        x = T.meta_var((A, a_skip, m, a_m, a_k))
        y = T.meta_var((B, b_skip, n, b_n, b_k))

        T.device_entry()
        T.attr({"tirx.launch_bounds_min_blocks_per_sm": c.blocks})
        block = T.cta_id([grid])
        tx = T.thread_id([c.threads])
        m_tiles: T.let = T.truncdiv(m + c.um - 1, c.um)
        n_tiles: T.let = T.truncdiv(n + c.un - 1, c.un)
        tiles: T.let = m_tiles * n_tiles
        steps: T.let = T.truncdiv(k + c.step - 1, c.step)
        smem = T.alloc_buffer((c.shared_bytes,), "uint8", scope="shared.dyn", align=1024)
        warp: T.let = T.tvm_warp_shuffle(T.uint32(0xFFFFFFFF), tx // WARP, 0, 32, 32)
        lane: T.let = tx % WARP
        top: T.let = T.truncmod(warp, c.warps_m) * c.warp_rows
        left: T.let = T.truncdiv(warp, c.warps_m) * c.warp_columns
        at = T.alloc_local([2], "int32")
        slot = T.alloc_local([2], "int32")
        sums = T.alloc_local((c.accumulators,), sum_dtype)
        tile: T.int32 = block
        while tile < tiles:
            position(at, tile, m_tiles, n_tiles)
            for i in T.unroll(c.accumulators):
                sums[i] = zero
            if gathered:
                x_words = T.alloc_local([a_words], "uint32")
                y_words = T.alloc_local([b_words], "uint32")
                fetch_a(x_words, x, k, at[0], 0, tx)
                fetch_b(y_words, y, k, at[1], 0, tx)
                for step in T.serial(steps):
                    # The step before last is done with this slot: all have passed a barrier since.
                    slot[0] = T.bitwise_and(step, 1)
                    put_a(smem, slot[0] * c.stage_bytes, x_words, x, tx)
                    put_b(smem, slot[0] * c.stage_bytes + b_offset, y_words, y, tx)
                    T.cuda.cta_sync()
                    if step + 1 < steps:
                        fetch_a(x_words, x, k, at[0], (step + 1) * c.step, tx)
                        fetch_b(y_words, y, k, at[1], (step + 1) * c.step, tx)
                    run(smem, slot[0], sums, top, left, lane)
            else:
                for ahead in T.unroll(stages - 1):
                    if ahead < steps:
                        copy(smem, ahead, x, y, k, at, ahead, tx)
                    T.ptx["cp.async.commit_group"]()
                # The slot that is multiplied, and the one that is filled: the one before it.
                slot[0] = 0
                slot[1] = stages - 1
                for step in T.serial(steps):
                    T.ptx["cp.async.wait_group"](stages - 2)
                    T.cuda.cta_sync()
                    if step + (stages - 1) < steps:
                        copy(smem, slot[1], x, y, k, at, step + (stages - 1), tx)
                    T.ptx["cp.async.commit_group"]()
                    run(smem, slot[0], sums, top, left, lane)
                    slot[1] = slot[0]
                    slot[0] = slot[0] + 1
                    if slot[0] == stages:
                        slot[0] = 0
                T.ptx["cp.async.wait_group"](0)
            write(C, sums, at[0] + top, at[1] + left, lane, m, n, ldc, vector_c)
            # The next tile's copies overwrite what other warps may still read.
            T.cuda.cta_sync()
            tile = tile + grid

    return main
