"""What a direct tile program is made of: sizes, warps, and which thread has what of a fragment.

A thread has 16 bytes of k of each of its rows, which are fragments of two instructions: in which
order the items of a reduction are multiplied does not matter, as long as it is the same in A and B.
"""

from __future__ import annotations

from dataclasses import dataclass

from ..items import OrientedConfig

WARP = 32
# One instruction's tile.
MMA_ROWS, MMA_COLUMNS = 16, 8
# What a thread loads of a row at once, and what the four threads of a row do.
THREAD_BYTES = 16
CHUNK_BYTES = 4 * THREAD_BYTES
THREAD_WORDS = THREAD_BYTES // 4
# Of bytes that begin within a word.
AROUND_WORDS = THREAD_WORDS + 1

_MAX_THREADS = 512
# Shared memory that needs no attribute of the function.
_MAX_SHARED_BYTES = 48 * 1024
_REGISTERS = 65536


@dataclass(frozen=True)
class DirectConfig(OrientedConfig):
    """One tile program: C (m, n) = A (m, k) times B (n, k) transposed.

    Parameters
    ----------
    um, un
        The tile of C: rows and columns.
    stages
        Chunks of k, 64 bytes each and side by side, that a warp loads at once.
    swapped
        Whether the rows of the instructions are columns of C.
    warps_p
        Warps along the rows of the instructions.
    warps_k
        Warps that share the reduction of a tile. Blocks of a cluster, and clusters, do so too.
    blocks
        Blocks that fit one multiprocessor.
    dtype, out_dtype
        Of A and B, and of C.
    """

    um: int
    un: int
    stages: int
    swapped: bool = False
    warps_p: int = 1
    warps_k: int = 1
    blocks: int = 4
    dtype: str = "float16"
    out_dtype: str = "float16"

    # What programs with a ring may be, and these are not.
    pingpong = False
    split = True
    cluster = cluster_p = cluster_q = 1
    loads = "direct"
    shared_bytes = 0

    @property
    def slices(self) -> bool:
        """Whether several clusters may share a tile.

        Programs whose warps don't even share it are for many tiles and short reductions; what they
        would have to know of slices makes them slower by up to a tenth.
        """
        return self.warps_k > 1

    @property
    def threads(self) -> int:
        """Threads of a block."""
        return self.warps_p * self.warps_k * WARP

    @property
    def warp_rows(self) -> int:
        """Rows of one warp."""
        return self.rows // self.warps_p

    @property
    def row_lines(self) -> int:
        """Rows that a thread loads from."""
        return self.warp_rows // 8

    @property
    def column_lines(self) -> int:
        """Columns that a thread loads from."""
        return self.columns // MMA_COLUMNS

    @property
    def accumulators(self) -> int:
        """Registers of a thread that hold sums."""
        return 2 * self.row_lines * self.column_lines

    @property
    def run(self) -> int:
        """Items of a row of C, side by side, that a thread has."""
        own = self.row_lines if self.swapped else 2 * self.column_lines
        return next(width for width in (8, 4, 2) if own % width == 0)

    @property
    def runs(self) -> int:
        """How many such groups a thread has."""
        return self.accumulators // self.run

    @property
    def sum_bytes(self) -> int:
        """Shared memory for the sums of all warps."""
        return self.threads * self.accumulators * 4

    def problems(self) -> list[str]:
        """Return why this can't be built; nothing if it can."""
        found = self.type_problems()
        if self.rows % (self.warps_p * MMA_ROWS):
            found.append(f"{self.rows} rows are no multiple of {MMA_ROWS} for each warp")
        if self.columns % MMA_COLUMNS:
            found.append(f"{self.columns} columns are no multiple of {MMA_COLUMNS}")
        if self.threads > _MAX_THREADS:
            found.append(f"{self.threads} threads")
        if self.sum_bytes > _MAX_SHARED_BYTES:
            found.append(f"{self.sum_bytes} bytes of sums of {_MAX_SHARED_BYTES}")
        if self.registers_needed > 255:
            found.append(f"{self.registers_needed} registers of a thread")
        if self.blocks * self.threads * self.registers_needed > _REGISTERS:
            found.append(f"{self.blocks} blocks don't fit the registers")
        return found

    @property
    def registers_needed(self) -> int:
        """Registers of a thread, about: sums, what was loaded, addresses."""
        lines = self.row_lines + self.column_lines
        return self.accumulators + lines * (AROUND_WORDS * (self.stages + 1)) + 24

    def name(self, isa: str) -> str:
        """Return the kernel's name: what it computes, on what, and how."""
        parts = [
            f"gemm_{self.item.short}_{isa}_{self.um}x{self.un}_d",
            f"w{self.warps_p}{self.warps_k}s{self.stages}b{self.blocks}",
        ]
        if self.swapped:
            parts.append("t")
        return "_".join(parts + self.output_parts())
