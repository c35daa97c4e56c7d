"""What the parts of a tile program share: a block's shared memory, registers and place."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from tvm.script import tirx as T

_THREAD = """__forceinline__ __device__ int thread_again() {
  int thread;
  asm volatile("mov.u32 %0, %%tid.x;" : "=r"(thread));
  return thread;
}
"""


@dataclass(frozen=True)
class Operand:
    """An operand as a kernel gets it: tensor maps, or items with what leads to them.

    ``maps`` has one of whole rows, or one for each residue of the row. ``items`` are 16 bits each,
    from a multiple of 16 bytes on, with ``skip`` items before the first. ``rows`` are along p or q;
    ``stride`` and ``k_stride`` count items from row to row and from step to step.
    """

    maps: tuple[Any, ...]
    items: Any
    skip: Any
    rows: Any
    stride: Any
    k_stride: Any


@dataclass(frozen=True)
class Block:
    """The variables of a block that outlive one step.

    Shared memory: ``smem`` as bytes, the barriers ``full``, ``empty`` and ``order``. Registers:
    ``work`` (tile, slice, first step of the reduction, number of steps), ``at`` (the tile's first
    row and column), ``ring`` (slot and phase), ``rank`` (the block's number in its cluster).
    Expressions: ``depth`` (slots in use of the ring that the tensor cores read), ``arrival_depth``
    (of the one that memory is copied to, mostly the same), ``stride`` (from a block's tile to its
    next), ``tiles`` and how many of them lie along p and q, ``columns`` of a tile and
    ``slot_bytes``; ``tx``, ``warp`` and ``lane`` of the thread.
    """

    smem: Any
    full: Any
    empty: Any
    order: Any
    work: Any
    at: Any
    ring: Any
    rank: Any
    depth: Any
    arrival_depth: Any
    stride: Any
    tiles: Any
    p_tiles: Any
    q_tiles: Any
    columns: Any
    slot_bytes: Any
    tx: Any
    warp: Any
    lane: Any


@T.inline
def next_slot(ring, depth):
    """Go on to a ring's next slot; ``ring`` is (slot, phase), which changes at each turn."""
    ring[0] = ring[0] + 1
    if ring[0] == depth:
        ring[0] = 0
        ring[1] = ring[1] ^ 1


def thread_again() -> Any:
    """Return the thread's number, read where this stands.

    What follows from it is computed there too. The compiler would keep it in registers from the
    start of the kernel on, and the sums leave none for that.
    """
    return T.cuda.func_call("thread_again", source_code=_THREAD, return_type="int32")
