"""What a Hopper tile program is made of: sizes, warpgroups, and the layout of shared memory."""

from __future__ import annotations

from dataclasses import dataclass

from ..items import ALIGNED_BYTES, ROW_BYTES, OrientedConfig

WARPGROUP = 128
# Rows of one wgmma instruction.
WGMMA_ROWS = 64

# Shared memory that blocks of one multiprocessor have between them, and what each block is charged.
SHARED_BYTES = 228 * 1024
RESERVED_BYTES = 1024
# What one block may have at most.
MAX_BLOCK_BYTES = 227 * 1024

# The 128-byte swizzle repeats after so many bytes; tensor copies go to multiples of 128.
_SWIZZLE_BYTES = 1024
COPY_BYTES = 128

# Rows that start anywhere arrive with 16 bytes more than a step, and are put in place from there.
RAW_ROW_BYTES = ROW_BYTES + ALIGNED_BYTES
# Slots that they are put in place in: one is multiplied while the next is written.
_PLACED_SLOTS = 2

# Columns of 16 bits that an epilogue stages at a time, and the padding that keeps banks apart.
STAGED = 64
STAGED_BYTES = 2
STAGED_PITCH = STAGED + 8

# Registers of a thread after the producer has given some away, by the number of consumers.
PRODUCER_REGISTERS = 40
CONSUMER_REGISTERS = {1: 240, 2: 232, 3: 152}

# Warps that issue the copies by residues: one for each operand.
RESIDUE_COPIERS = 2

# Named barriers; 0 is the whole block's.
BARRIER_CONSUMERS, BARRIER_READY, BARRIER_LOADERS, BARRIER_WARPGROUP = 1, 2, 3, 4


@dataclass(frozen=True)
class WgmmaConfig(OrientedConfig):
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
    def p_bytes(self) -> int:
        """Bytes of one stage of the operand along p."""
        return self.rows * ROW_BYTES

    @property
    def q_bytes(self) -> int:
        """Bytes of one stage of the operand along q."""
        return self.columns * ROW_BYTES

    @property
    def slot_bytes(self) -> int:
        """Bytes of one stage: of the operand along p, then of the one along q."""
        return self.p_bytes + self.q_bytes

    @property
    def slots(self) -> int:
        """Slots that the tensor cores read, at most."""
        return _PLACED_SLOTS if self.loads == "residue" else self.stages

    @property
    def empty_offset(self) -> int:
        """Where the barriers of empty slots lie, behind those of full ones."""
        return 8 * self.slots

    @property
    def order_offset(self) -> int:
        """Where the two barriers lie that say whose turn it is in ping-pong."""
        return self.empty_offset + 8 * self.slots

    @property
    def flag_offset(self) -> int:
        """Where the word lies that says which block came last."""
        return self.order_offset + 16

    @property
    def raw_full_offset(self) -> int:
        """Where the barriers lie of what arrived by residues; those of what was read follow."""
        return self.flag_offset + 16

    @property
    def staging_offset(self) -> int:
        """Where results are staged that are no partial sums."""
        raw_barriers = 16 * self.stages if self.loads == "residue" else 0
        return _up(self.raw_full_offset + raw_barriers, 128)

    @property
    def ring_offset(self) -> int:
        """Where the slots begin that the tensor cores read."""
        end = self.staging_offset
        if not self.split and not self.wide_output:
            end += self.consumers * WGMMA_ROWS * STAGED_PITCH * STAGED_BYTES
        return _up(end, _SWIZZLE_BYTES)

    @property
    def sum_pitch(self) -> int:
        """Floats from one row of staged partial sums to the next."""
        return self.un + 4

    @property
    def arrival_offset(self) -> int:
        """Where the ring begins that memory is copied to.

        It comes last: launches have as many slots of it as they use.
        """
        placed = _PLACED_SLOTS * self.slot_bytes if self.loads == "residue" else 0
        return self.ring_offset + placed

    @property
    def arrival_bytes(self) -> int:
        """Bytes of a slot of that ring."""
        if self.loads != "residue":
            return self.slot_bytes
        return self.residues * (self.raw_box_bytes(self.rows) + self.raw_box_bytes(self.columns))

    def raw_box_bytes(self, height: int) -> int:
        """Bytes from the rows of one residue to those of the next, of ``height`` rows in all."""
        return _up(height // self.residues * RAW_ROW_BYTES, COPY_BYTES)

    @property
    def shared_bytes(self) -> int:
        """Shared memory of a block with all its slots."""
        return self.arrival_offset + self.stages * self.arrival_bytes

    @property
    def least_bytes(self) -> int:
        """Shared memory of a block however few slots it has: partial sums lie where they are."""
        sums = self.sum_bytes if self.split else 0
        return max(self.arrival_offset + self.arrival_bytes, self.ring_offset + sums)

    @property
    def residues(self) -> int:
        """Tensor maps of an operand: rows that are so many apart start alike within 16 bytes."""
        return self.item.residues if self.loads == "residue" else 1

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
    def sum_bytes(self) -> int:
        """Bytes of a tile of partial sums in shared memory."""
        return self.um * self.sum_pitch * 4

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


def _up(value: int, unit: int) -> int:
    return -(-value // unit) * unit
