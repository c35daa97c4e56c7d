"""A consumer's main loop: tensor cores over the ring, one step of k behind the slot it frees."""

from __future__ import annotations

from tvm.script import tirx as T

from ..items import ROW_BYTES
from .block import next_slot
from .config import WgmmaConfig
from .shared_memory import WGMMA_ROWS

# Descriptors count in units of 16 bytes; one instruction takes 32 bytes of k.
_UNIT = 16
_DEPTH_BYTES = 32

# The compiler must neither move a read of the sums over the wait nor keep copies of them.
_FENCE = """__forceinline__ __device__ void accumulator_fence(float& r) {
  asm volatile("" : "+f"(r) :: "memory");
}
__forceinline__ __device__ void accumulator_fence(unsigned& r) {
  asm volatile("" : "+r"(r) :: "memory");
}
"""


def fence(c: WgmmaConfig):
    """Return an inline function that pins the sums in their registers."""
    count = c.accumulators

    @T.inline
    def pin(sums):
        for i in T.unroll(count):
            T.evaluate(T.cuda.func_call("accumulator_fence", sums[i], source_code=_FENCE))

    return pin


def release(c: WgmmaConfig):
    """Return an inline function that tells the producers of a slot that it is free.

    ``last`` is the slot and, where blocks of a cluster share loads, how many times it will still be
    filled again by any of them: without need nobody is told, so that nobody tells a block that has
    ended.
    """

    @T.inline
    def free(empty, last, tid, rank):
        if c.cluster == 1:
            if tid == 0:
                T.ptx.mbarrier.arrive.shared.b64(empty.ptr_to([last[0]]), T.uint32(1))
        else:
            # Every block that wrote into this slot: those of its column and of its row.
            if T.And(last[1] > 0, tid < c.cluster_p + c.cluster_q - 1):
                row: T.let = T.truncdiv(rank, c.cluster_p)
                peer: T.let = T.if_then_else(
                    tid < c.cluster_p,
                    row * c.cluster_p + tid,
                    T.truncmod(row + (tid - c.cluster_p) + 1, c.cluster_q) * c.cluster_p
                    + T.truncmod(rank, c.cluster_p),
                )
                remote = T.alloc_local([1], "uint32")
                T.ptx.mapa.shared__cluster.u32(
                    remote[0],
                    T.cuda.cvta_generic_to_shared(empty.ptr_to([last[0]])),
                    T.cast(peer, "uint32"),
                )
                T.ptx.mbarrier.arrive.shared__cluster.b64(remote[0])
            last[1] = last[1] - 1

    return free


def multiply(c: WgmmaConfig):
    """Return an inline function that adds the products of a tile's steps to ``sums``.

    The last slot is left to be freed by the caller, after it has waited for the last products. A
    program of several widths has a loop for each.
    """
    return _choose_columns(c, sorted(c.widths) or [c.columns])


def _choose_columns(c: WgmmaConfig, widths: list[int]):
    """Return an inline function that takes the loop for a tile's columns, by halving."""
    if len(widths) == 1:
        return _multiply_columns(c, widths[0])
    half = len(widths) // 2
    narrow, wide = _choose_columns(c, widths[:half]), _choose_columns(c, widths[half:])
    first_wide = widths[half]

    @T.inline
    def choose(b, p_descriptor, q_descriptor, sums, last, tid):
        if b.columns < first_wide:
            narrow(b, p_descriptor, q_descriptor, sums, last, tid)
        else:
            wide(b, p_descriptor, q_descriptor, sums, last, tid)

    return choose


def _multiply_columns(c: WgmmaConfig, columns: int):
    width = c.item.instruction_columns(columns)
    per_instruction, strips = width // 2, columns // width
    # Sums of a block of rows lie where they would if tiles were as wide as the widest.
    per_block = c.columns // 2
    slot_units = (c.p_bytes + columns * ROW_BYTES) // _UNIT
    blocks_of_rows = c.warpgroup_rows // WGMMA_ROWS
    instruction, immediates = c.item.instruction(width), c.item.immediates
    pin, free = fence(c), release(c)

    @T.inline
    def run(b, p_descriptor, q_descriptor, sums, last, tid):
        for step in T.serial(b.work[3]):
            T.cuda.mbarrier_wait(b.full.ptr_to([b.ring[0]]), b.ring[1])
            pin(sums)
            T.ptx.wgmma.fence.sync.aligned()
            for part in T.unroll(ROW_BYTES // _DEPTH_BYTES):
                for block in T.unroll(blocks_of_rows):
                    for strip in T.unroll(strips):
                        T.ptx[instruction](
                            *[
                                sums[block * per_block + strip * per_instruction + i]
                                for i in range(per_instruction)
                            ],
                            p_descriptor
                            + T.cast(
                                b.ring[0] * slot_units
                                + block * (WGMMA_ROWS * ROW_BYTES // _UNIT)
                                + part * (_DEPTH_BYTES // _UNIT),
                                "uint64",
                            ),
                            q_descriptor
                            + T.cast(
                                b.ring[0] * slot_units
                                + strip * (width * ROW_BYTES // _UNIT)
                                + part * (_DEPTH_BYTES // _UNIT),
                                "uint64",
                            ),
                            (step > 0 if part == 0 else True),
                            *immediates,
                        )
            T.ptx.wgmma.commit_group.sync.aligned()
            pin(sums)
            T.ptx.wgmma.wait_group.sync.aligned(1)
            if step > 0:
                free(b.empty, last, tid, b.rank[0])
            last[0] = b.ring[0]
            next_slot(b.ring, b.depth)

    return run
