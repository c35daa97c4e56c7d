"""What a Hopper tile program is made of: sizes, warpgroups, and what shares what."""

from __future__ import annotations

from dataclasses import dataclass

from .shared_memory import (
    MAX_BLOCK_BYTES,
    RESERVED_BYTES,
    SHARED_BYTES,
    WGMMA_ROWS,
    SharedMemory,
)

WARPGROUP = 128

# Registers of a thread after the producer has given some away, by the number of consumers.
PRODUCER_REGISTERS = 40
CONSUMER_REGISTERS = {1: 240, 2: 232, 3: 152}

# Warps that issue the copies by residues: one for each operand.
RESIDUE_COPIERS = 2

# Named barriers; 0 is the whole block's.
BARRIER_CONSUMERS, BARRIER_READY, BARRIER_LOADERS, BARRIER_WARPGROUP = 1, 2, 3, 4


@dataclass(frozen=True)
class WgmmaConfig(SharedMemory):
    """One tile program: C (m, n) = A (m, k) times B (n, k) transposed.

    The tensor cores' own rows come in 64s, their columns in 8s. Where ``swapped``, rows of the
    tensor cores are columns of C: the tile of an output with few rows. ``p`` and ``q`` name these
    two axes in the code, whichever of m and n they are.

    Parameters
    ----------
    um, un
        The tile of C: rows and columns.
    stages
        Slots of the ring in shared memory, each 128 bytes of k deep.
    consumers
        Warpgroups that multiply.
    swapped
        Whether p is n.
    pingpong
        Whether each of two consumers has a tile of its own, so that one stores while the other
        multiplies. The tile is then one warpgroup's.
    cluster_p, cluster_q
        Blocks of a cluster that share what they load: along p they share the q operand.
    split
        Whether k is cut: the blocks of a cluster, and clusters, each take a slice of it.
    blocks
        Blocks that fit one multiprocessor.
    loads
        ``"tma"``: rows of both operands start at multiples of 16 bytes. ``"residue"``: k is
        contiguous, rows start anywhere. ``"strided"``: any strides.
    dtype, out_dtype
        Of A and B, one of ``ITEMS``, and of C, one of its ``OUTPUTS``.
    widths
        Columns of the tensor cores that a launch may choose from, this tile's the most. None: only
        those.
    """

    um: int
    un: int
    stages: int
    consumers: int = 1
    swapped: bool = False
    pingpong: bool = False
    cluster_p: int = 1
    cluster_q: int = 1
    split: bool = False
    blocks: int = 1
    loads: str = "tma"
    dtype: str = "float16"
    out_dtype: str = "float16"
    widths: tuple[int, ...] = ()

    @property
    def flexible(self) -> bool:
        """Whether the program takes the columns of its tiles as an argument."""
        return bool(self.widths)

    @property
    def slices(self) -> bool:
        """Whether clusters may share a reduction through a workspace."""
        return self.split

    @property
    def warpgroup_rows(self) -> int:
        """Rows of one consumer."""
        return self.rows if self.pingpong else self.rows // self.consumers

    @property
    def accumulators(self) -> int:
        """Registers of a consumer's thread that hold sums."""
        return self.warpgroup_rows // WGMMA_ROWS * self.columns // 2

    @property
    def cluster(self) -> int:
        """Blocks of a cluster that share loads."""
        return self.cluster_p * self.cluster_q

    @property
    def trades_registers(self) -> bool:
        """Whether the producer gives registers to the consumers."""
        if self.split:
            # All threads end in the same code, which the producer's few would be too few for.
            return False
        # What stores straight from the sums needs addresses beside them.
        crowded = self.pingpong or self.swapped or self.wide_output
        if self.consumers == 3 and self.swapped:
            # The registers of 13 warps are shared out as those of 16.
            return self.accumulators > 64
        return self.accumulators > (96 if crowded else 128)

    @property
    def producer_threads(self) -> int:
        """Threads that load: one of a warp issues TMAs; plain loads take eight warps."""
        if self.loads == "strided":
            return 2 * WARPGROUP
        if self.loads == "residue":
            return RESIDUE_COPIERS * 32 + self.placing_threads
        return WARPGROUP if self.trades_registers else 32

    @property
    def placing_threads(self) -> int:
        """Threads that put in place what arrives by residues; fewer where blocks are several."""
        return WARPGROUP if self.blocks > 1 else 2 * WARPGROUP

    @property
    def filling_arrivals(self) -> int:
        """Arrivals that fill a slot, beside the bytes: of each warp that stores to it."""
        storing = {"tma": 32, "residue": self.placing_threads, "strided": self.producer_threads}
        return storing[self.loads] // 32

    @property
    def consumer_threads(self) -> int:
        """Threads that multiply."""
        return self.consumers * WARPGROUP

    @property
    def threads(self) -> int:
        """Threads of a block."""
        return self.consumer_threads + self.producer_threads

    @property
    def box_items(self) -> int:
        """Items of each row that one tensor copy brings."""
        return self.step + (self.item.aligned if self.loads == "residue" else 0)

    @property
    def box_x(self) -> int:
        """Rows that one tensor copy brings of the operand along p."""
        return self.rows // self.cluster_q // self.residues

    @property
    def box_y(self) -> int:
        """Rows that one tensor copy brings of the operand along q."""
        return self.columns // self.cluster_p // self.residues

    def problems(self) -> list[str]:
        """Return why this can't be built; nothing if it can."""
        found = self.type_problems()
        if self.warpgroup_rows % WGMMA_ROWS or self.warpgroup_rows == 0:
            found.append(f"{self.warpgroup_rows} rows of a warpgroup are no multiple of 64")
        if self.columns % 8 or not 8 <= self.columns <= 256:
            found.append(f"{self.columns} columns are no multiple of 8 up to 256")
        elif not self.item.instruction_columns(self.columns):
            found.append(f"no instruction for {self.dtype} has {self.columns} columns")
        limit = {1: 208, 2: 208, 3: 112}.get(self.consumers, 0)
        if self.accumulators > limit:
            found.append(f"{self.accumulators} accumulators of a thread, at most {limit}")
        if self.shared_bytes > MAX_BLOCK_BYTES:
            found.append(f"{self.shared_bytes} bytes of shared memory of {MAX_BLOCK_BYTES}")
        if self.blocks * (self.shared_bytes + RESERVED_BYTES) > SHARED_BYTES:
            found.append(f"{self.blocks} blocks don't fit the shared memory")
        if self.blocks > 1 and self.blocks * self.threads * self.registers_needed > 65536:
            found.append(f"{self.blocks} blocks don't fit the registers")
        if self.rows % self.cluster_q or self.columns % self.cluster_p:
            found.append("the cluster does not divide the tile")
        if self.pingpong and (self.consumers != 2 or self.split):
            found.append("ping-pong takes two consumers and whole reductions")
        if self.split and (self.cluster > 1 or self.least_bytes > self.shared_bytes):
            found.append("partial sums don't fit the ring, or its blocks share loads")
        if self.loads == "strided" and (self.cluster > 1 or self.trades_registers):
            found.append("plain loads can't be shared and need their registers")
        if self.loads == "residue" and not self.split:
            found.append("rows that arrive by residues are stored as partial sums only")
        if self.trades_registers and self.blocks > 1:
            found.append("registers can be traded only in a block that is alone")
        return found

    @property
    def registers_needed(self) -> int:
        """Registers of a thread, about: the sums and what moves them."""
        return max(64, self.accumulators + 48)

    def name(self, isa: str) -> str:
        """Return the kernel's name: what it computes, on what, and how."""
        parts = [
            f"gemm_{self.item.short}_{isa}_{self.um}x{self.un}x{self.step}",
            f"s{self.stages}w{self.consumers}b{self.blocks}",
        ]
        flags = (
            ("t" if self.swapped else "")
            + ("p" if self.pingpong else "")
            + ("k" if self.split else "")
            + {"tma": "", "residue": "r", "strided": "u"}[self.loads]
        )
        if flags:
            parts.append(flags)
        if self.cluster > 1:
            parts.append(f"c{self.cluster_p}{self.cluster_q}")
        if self.flexible:
            # A program of several tiles, of which these are the largest's.
            parts.append(f"x{len(self.widths)}")
        return "_".join(parts + self.output_parts())
