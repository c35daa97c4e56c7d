"""The consumers' side of a block: they multiply what arrives in the ring and store the results."""

from __future__ import annotations

import tvm
from tvm.script import tirx as T

from ..items import ROW_BYTES
from .barriers import await_cluster, meet
from .config import BARRIER_CONSUMERS, BARRIER_READY, CONSUMER_REGISTERS, WgmmaConfig
from .multiply import fence, multiply, release
from .partial_sums import clear_sums, stage_sums
from .shared_memory import STAGED_PITCH, WGMMA_ROWS
from .store import store
from .walk import next_tile


def consumer(c: WgmmaConfig):
    """Return an inline function for the threads that multiply, up to the end of their tiles.

    Where the reduction is cut, the sums are left in ``partial``.
    """
    whole, part = (None, _part(c)) if c.split else (_tiles(c), None)
    # From one consumer's rows to the next one's, as descriptors count; in ping-pong they share.
    warpgroup_units = 0 if c.pingpong else c.warpgroup_rows * ROW_BYTES // 16

    @T.inline
    def consume(b, partial, C, m, n, ldc, vector):
        if c.trades_registers:
            T.ptx["setmaxnreg.inc.sync.aligned.u32"](CONSUMER_REGISTERS[c.consumers])
        wg: T.let = b.warp // 4
        sums = T.alloc_local((c.accumulators,), c.item.sums)
        # The slot that was multiplied last, and how many are to be freed from there on.
        last = T.alloc_local([2], "int32")
        last[0] = 0
        p_first: T.uint64
        q_first: T.uint64
        T.cuda.wgmma.encode_matrix_descriptor(
            T.address_of(p_first), b.smem.ptr_to([c.ring_offset]), 1, 64, 3
        )
        T.cuda.wgmma.encode_matrix_descriptor(
            T.address_of(q_first), b.smem.ptr_to([c.ring_offset + c.p_bytes]), 1, 64, 3
        )
        p_descriptor: T.let = p_first + T.cast(wg, "uint64") * T.uint64(warpgroup_units)
        if c.cluster > 1:
            T.ptx["barrier.cluster.arrive.relaxed.aligned"]()
        T.ptx.bar.sync(BARRIER_READY, c.threads)
        T.ptx.griddepcontrol.wait()
        if c.cluster > 1:
            # Before it tells its peers anything, they must be there.
            T.ptx["barrier.cluster.wait.acquire.aligned"]()
        if c.split:
            part(b, p_descriptor, q_first, sums, last, partial)
        else:
            whole(b, p_descriptor, q_first, sums, last, C, m, n, ldc, vector, wg)

    return consume


def _part(c: WgmmaConfig):
    """One part of a reduction, of one tile."""
    run, pin, stage, clear = multiply(c), fence(c), stage_sums(c), clear_sums(c)
    zero = tvm.tirx.const(0, c.item.sums)

    @T.inline
    def part(b, p_descriptor, q_descriptor, sums, last, partial):
        # A part may have no steps at all. Where loops are several, sums that are set before them
        # would make the tensor cores wait for each instruction.
        if not c.flexible:
            for i in T.unroll(c.accumulators):
                sums[i] = zero
        run(b, p_descriptor, q_descriptor, sums, last, b.tx % 128)
        T.ptx.wgmma.wait_group.sync.aligned(0)
        pin(sums)
        # Every consumer is done with the ring, which the sums overwrite.
        T.ptx.bar.sync(BARRIER_CONSUMERS, c.consumer_threads)
        if c.flexible and b.work[3] == 0:
            clear(partial, b.columns, b.tx)
        else:
            stage(partial, sums, b.columns)

    return part


def _tiles(c: WgmmaConfig):
    """Whole reductions, of one tile after the other."""
    run, pin, free = multiply(c), fence(c), release(c)
    write, step_on = store(c), next_tile(c)
    out = c.stored_dtype
    tiles_at_once = 2 if c.pingpong else 1

    @T.inline
    def tiles(b, p_descriptor, q_descriptor, sums, last, C, m, n, ldc, vector, wg):
        staged = T.decl_buffer(
            (c.consumers * WGMMA_ROWS, STAGED_PITCH),
            out,
            data=b.smem.data,
            byte_offset=c.staging_offset,
            scope="shared.dyn",
        )
        tid: T.let = b.tx % 128
        turn: T.int32 = 1 - wg
        slot: T.int32 = 0
        if c.cluster > 1:
            # Slots are filled once for each step of all tiles, and the last times never again.
            count: T.let = T.truncdiv(b.tiles - b.work[0] + b.stride - 1, b.stride)
            last[1] = count * b.work[3] - b.depth
        if c.pingpong:
            if wg == 1:
                step_on(b, b.stride)
                if c.cluster > 1:
                    last[1] = last[1] - b.work[3]
            slot = wg * b.work[3]
            b.ring[0] = T.truncmod(slot, b.depth)
            b.ring[1] = T.truncmod(T.truncdiv(slot, b.depth), 2)
        while b.work[0] < b.tiles:
            if c.pingpong:
                # The other consumer has issued the last products of its tile.
                T.cuda.mbarrier_wait(b.order.ptr_to([wg]), turn)
                turn = turn ^ 1
            run(b, p_descriptor, q_descriptor, sums, last, tid)
            if c.pingpong:
                if tid == 0:
                    T.ptx.mbarrier.arrive.shared.b64(b.order.ptr_to([1 - wg]), T.uint32(1))
            T.ptx.wgmma.wait_group.sync.aligned(0)
            pin(sums)
            free(b.empty, last, tid, b.rank[0])
            if c.pingpong:
                slot = slot + c.consumers * b.work[3]
                if c.cluster > 1:
                    last[1] = last[1] - b.work[3]
                b.ring[0] = T.truncmod(slot, b.depth)
                b.ring[1] = T.truncmod(T.truncdiv(slot, b.depth), 2)
            else:
                b.at[0] = b.at[0] + wg * c.warpgroup_rows
            write(C, staged, sums, b.at, b.columns, wg, b.warp, b.lane, m, n, ldc, vector)
            step_on(b, b.stride * tiles_at_once)

    return tiles


def finish(c: WgmmaConfig, add_up):
    """Return an inline function for all threads of a block, after its tiles."""

    @T.inline
    def end(b, partial, C, flag, workspace, counters, cluster, slices, m, n, ldc, vector):
        if c.split:
            meet()
            if b.warp < c.consumers * 4:
                add_up(b, partial, C, flag, workspace, counters, cluster, slices, m, n, ldc, vector)
            # A block's shared memory must live until its peers have read it.
            await_cluster()

    return end
