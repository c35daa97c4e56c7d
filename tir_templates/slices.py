"""Slices of a reduction: clusters that share a tile leave their sums in a workspace.

The last of them to arrive adds up all, in the order of the slices, whichever that is: the same call
gives the same bits. ``counters`` count who has arrived, and are zero before and after.
"""

from __future__ import annotations

from tvm.script import tirx as T

# A barrier before it makes what all threads of the block wrote part of what is released. The last
# one's count wraps around to zero.
_ARRIVE = """__forceinline__ __device__ int arrive_last(int* counter, int count) {
  unsigned before;
  asm volatile("atom.acq_rel.gpu.inc.u32 %0, [%1], %2;"
               : "=r"(before) : "l"(counter), "r"(count - 1) : "memory");
  return before == static_cast<unsigned>(count - 1);
}
"""


def arrive_last(counters, counter, slices):
    """Return an expression that counts one slice, and is 1 for the last of them, else 0."""
    return T.cuda.func_call(
        "arrive_last",
        counters.ptr_to([counter]),
        slices,
        source_code=_ARRIVE,
        return_type="int32",
    )


def sums_of(slice_, tile, tiles, items):
    """Return where a slice's sums of a tile begin in the workspace; a tile has so many items."""
    return T.cast(slice_ * tiles + tile, "int64") * items
