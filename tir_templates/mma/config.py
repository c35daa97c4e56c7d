"""What a tile program of mma instructions is made of: sizes, warps, and shared memory."""

from __future__ import annotations

from dataclasses import dataclass

from ..items import ROW_BYTES, TypedConfig

# What a thread copies of a row of a stage at once.
CHUNK_BYTES = 16
CHUNKS = ROW_BYTES // CHUNK_BYTES
WARP = 32
# One instruction's tile; its operands take 32 bytes of k.
MMA_ROWS, MMA_COLUMNS, MMA_BYTES = 16, 8, 32

# What a multiprocessor of an A100 has, what each block is charged of it, and what one may have.
SHARED_BYTES = 164 * 1024
_RESERVED_BYTES = 1024
MAX_BLOCK_BYTES = 163 * 1024
_REGISTERS = 65536
_MAX_ACCUMULATORS = 128


@dataclass(frozen=True)
class MmaConfig(TypedConfig):
    """One tile program: C (m, n) = A (m, k) times B (n, k) transposed.

    Parameters
    ----------
    um, un
        The tile of C: rows and columns.
    stages
        Slots of the ring in shared memory, each 128 bytes of k deep.
    warps_m, warps_n
        Warps along the rows and the columns of the tile.
    blocks
        Blocks that fit one multiprocessor.
    loads
        ``"async"``: k contiguous, rows at multiples of 16 bytes, copied past the registers; or
        ``"strided"``, which needs no alignment and takes any strides.
    dtype, out_dtype
        Of A and B, and of C.
    """

    um: int
    un: int
    stages: int
    warps_m: int = 2
    warps_n: int = 2
    blocks: int = 1
    loads: str = "async"
    dtype: str = "float16"
    out_dtype: str = "float16"

    # What the programs of later GPUs may also do.
    swapped = pingpong = split = slices = False
    cluster_p = cluster_q = cluster = 1

    @property
    def threads(self) -> int:
        """Threads of a block: all of them copy and multiply."""
        return self.warps_m * self.warps_n * WARP

    @property
    def warp_rows(self) -> int:
        """Rows of one warp."""
        return self.um // self.warps_m

    @property
    def warp_columns(self) -> int:
        """Columns of one warp."""
        return self.un // self.warps_n

    @property
    def accumulators(self) -> int:
        """Registers of a thread that hold sums."""
        return self.warp_rows * self.warp_columns // WARP

    @property
    def stage_bytes(self) -> int:
        """Bytes of one slot: rows of A, then rows of B."""
        return (self.um + self.un) * ROW_BYTES

    @property
    def shared_bytes(self) -> int:
        """Shared memory of a block."""
        return self.stages * self.stage_bytes

    def problems(self) -> list[str]:
        """Return why this can't be built; nothing if it can."""
        found = []
        # Only GPUs later than those that this is for have one.
        if self.dtype == "float8_e4m3fn":
            found.append(f"no instruction multiplies {self.dtype}")
        found += self.type_problems()
        if self.um % (self.warps_m * MMA_ROWS):
            found.append(f"{self.um} rows are no multiple of {MMA_ROWS} for each warp")
        if self.un % (self.warps_n * 2 * MMA_COLUMNS):
            found.append(f"{self.un} columns are no multiple of {2 * MMA_COLUMNS} for each warp")
        if self.accumulators > _MAX_ACCUMULATORS:
            found.append(f"{self.accumulators} accumulators of a thread")
        if self.shared_bytes > MAX_BLOCK_BYTES:
            found.append(f"{self.shared_bytes} bytes of shared memory of {MAX_BLOCK_BYTES}")
        if self.blocks * (self.shared_bytes + _RESERVED_BYTES) > SHARED_BYTES:
            found.append(f"{self.blocks} blocks don't fit the shared memory")
        if self.blocks * self.threads * self.registers_needed > _REGISTERS:
            found.append(f"{self.blocks} blocks don't fit the registers")
        if self.stages < 2:
            found.append("a slot is filled while another is multiplied")
        if self.loads == "strided" and self.stages != 2:
            found.append("plain loads are one step ahead")
        return found

    @property
    def registers_needed(self) -> int:
        """Registers of a thread, about: sums, fragments of one part of a step, addresses."""
        gathered = 0
        if self.loads == "strided":
            gathered = 4 * -(-(self.um + self.un) * CHUNKS // self.threads)
        fragments = self.warp_rows // 4 + self.warp_columns // 4
        return max(64, self.accumulators + fragments + gathered + 48)

    def name(self, isa: str) -> str:
        """Return the kernel's name: what it computes, on what, and how."""
        parts = [
            f"gemm_{self.item.short}_{isa}_{self.um}x{self.un}x{self.step}",
            f"s{self.stages}w{self.warps_m}{self.warps_n}b{self.blocks}",
        ]
        if self.loads == "strided":
            parts.append("u")
        return "_".join(parts + self.output_parts())
