"""What a program for a matrix times a vector is made of."""

from __future__ import annotations

from dataclasses import dataclass

from ..items import TypedConfig

THREADS = 256
WARPS = THREADS // 32


@dataclass(frozen=True)
class GemvConfig(TypedConfig):
    """One program: C (1, n) or (m, 1), by blocks of eight warps.

    The tile is one row (``um`` is 1) or one column (``un`` is 1) of C. With fewer than eight items
    the warps share reductions; with more, each has several. Blocks of a cluster, and slices of
    few items, share reductions as well.

    Parameters
    ----------
    um, un
        The tile of C.
    stages
        Loads of each line that a thread has in flight.
    blocks
        Blocks that fit one multiprocessor.
    dtype, out_dtype
        Of A and B, and of C.
    """

    um: int
    un: int
    stages: int
    blocks: int = 4
    dtype: str = "float16"
    out_dtype: str = "float16"

    # What programs for tensor cores may be, and these are not.
    swapped = pingpong = False
    split = True
    cluster = cluster_p = cluster_q = 1
    loads = "gemv"
    threads = THREADS
    shared_bytes = 0

    @property
    def slices(self) -> bool:
        """Whether several clusters may share a tile.

        Those of more items fill the GPU sooner, and leave no registers to add up with.
        """
        return self.lines <= WARPS

    @property
    def lines(self) -> int:
        """Items of C in a tile."""
        return self.um * self.un

    @property
    def warp_lines(self) -> int:
        """Items of C that a warp works on at once."""
        return max(1, self.lines // WARPS)

    @property
    def warps_k(self) -> int:
        """Warps that share a reduction."""
        return WARPS * self.warp_lines // self.lines

    @property
    def vector(self) -> int:
        """Items of one load."""
        return self.item.aligned

    @property
    def chunk(self) -> int:
        """Items of one load of a warp."""
        return 32 * self.vector

    def problems(self) -> list[str]:
        """Return why this can't be built; nothing if it can."""
        found = []
        if self.item.bytes == 1:
            found.append(f"items of {self.dtype} are of 8 bits")
        if min(self.um, self.un) != 1:
            found.append(f"a tile of {self.um} x {self.un} is no row and no column")
        if self.lines & (self.lines - 1) or self.lines > 4 * WARPS:
            found.append(f"{self.lines} items are no power of two up to {4 * WARPS}")
        if self.warp_lines * self.stages * self.blocks > 16:
            found.append(f"{self.warp_lines * self.stages} loads in flight need too many registers")
        return found

    def name(self, isa: str) -> str:
        """Return the kernel's name: what it computes, on what, and how."""
        parts = [f"gemv_{self.item.short}_{isa}_{self.um}x{self.un}_s{self.stages}b{self.blocks}"]
        return "_".join(parts + self.output_parts())
