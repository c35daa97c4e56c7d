"""Element types as GPU programs take them: widths, the tensor cores' instructions, and sums.

An instruction takes 32 bytes of k of both operands, whatever the type; a stage of the ring is 128.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any, TypeVar

from moonpoly.workload import OUTPUTS

# Bytes of k in one stage of a ring in shared memory.
ROW_BYTES = 128
# What loads without strides of their own need: rows at multiples of so many bytes.
ALIGNED_BYTES = 16
# Tensor maps that a kernel takes of one operand at most.
MAX_RESIDUES = 8

# The annotation of a tile's block that tells its schedule the type of A and B.
DTYPE = "moonpoly.dtype"

# Columns of one instruction with integer operands.
_INTEGER_COLUMNS = (8, 16, 24, *range(32, 225, 16))


@dataclass(frozen=True)
class ItemType:
    """One type of A and B.

    Parameters
    ----------
    short
        Its part of a kernel's name, and what the instruction calls it.
    bytes
        Of one item in memory.
    depth
        Items of k that one instruction takes.
    sums
        What a thread's sums are kept as: ``"float32"``, or ``"uint32"``, the bits of integers.
    immediates
        The instruction's last operands: signs, and for 16 bits whether operands are transposed.
    """

    short: str
    bytes: int
    depth: int
    sums: str
    immediates: tuple[int, ...]

    @property
    def aligned(self) -> int:
        """Items of 16 bytes."""
        return ALIGNED_BYTES // self.bytes

    @property
    def residues(self) -> int:
        """Rows that are so many apart start alike within 16 bytes, of 8 bits where k is even."""
        return min(self.aligned, MAX_RESIDUES)

    @property
    def step(self) -> int:
        """Items of k in one stage of a ring."""
        return ROW_BYTES // self.bytes

    def instruction(self, columns: int) -> str:
        """Return the instruction for a tile of 64 rows and so many columns."""
        kind = "s32" if self.sums == "uint32" else "f32"
        shape = f"m64n{columns}k{self.depth}"
        return f"wgmma.mma_async.sync.aligned.{shape}.{kind}.{self.short}.{self.short}"

    @property
    def mma(self) -> str:
        """Return the instruction of one warp, 16 rows by 8 columns.

        An A100 has none for 8-bit floats. Hopper makes them 16-bit ones for it, so that their sums
        are those of float32.
        """
        kind = "s32" if self.sums == "uint32" else "f32"
        types = f"{kind}.{self.short}.{self.short}.{kind}"
        return f"mma.sync.aligned.m16n8k{self.depth}.row.col.{types}"

    def instruction_columns(self, columns: int) -> int:
        """Return the columns of one instruction that a tile is made of, 0 if there is none."""
        if self.sums == "float32":
            return columns if columns % 8 == 0 and 8 <= columns <= 256 else 0
        whole = (columns, columns // 2 if columns % 2 == 0 else 0)
        return next((each for each in whole if each in _INTEGER_COLUMNS), 0)


ITEMS = MappingProxyType(
    {
        "float16": ItemType("f16", 2, 16, "float32", (1, 1, 0, 0)),
        "bfloat16": ItemType("bf16", 2, 16, "float32", (1, 1, 0, 0)),
        "tf32": ItemType("tf32", 4, 8, "float32", (1, 1)),
        "float8_e4m3fn": ItemType("e4m3", 1, 32, "float32", (1, 1)),
        "int8": ItemType("s8", 1, 32, "uint32", ()),
    }
)

OUTPUT_BYTES = MappingProxyType({"float16": 2, "bfloat16": 2, "float32": 4, "int32": 4})
OUTPUT_SHORT = MappingProxyType(
    {"float16": "f16", "bfloat16": "bf16", "float32": "f32", "int32": "s32"}
)

Config = TypeVar("Config", bound=Any)


class TypedConfig:
    """What follows from the types of a program's operands: a base of its dataclass.

    Attributes
    ----------
    dtype, out_dtype
        Of A and B, one of ``ITEMS``, and of C, one of its ``OUTPUTS``.
    """

    dtype: str
    out_dtype: str

    @property
    def item(self) -> ItemType:
        """The type of A and B."""
        return ITEMS[self.dtype]

    @property
    def step(self) -> int:
        """Items of k in one stage of the ring."""
        return self.item.step

    @property
    def wide_output(self) -> bool:
        """Whether an item of C takes 32 bits, as a sum does."""
        return OUTPUT_BYTES[self.out_dtype] == 4

    @property
    def stored_dtype(self) -> str:
        """What programs store items of C as: integers as their bits."""
        return "uint32" if self.out_dtype == "int32" else self.out_dtype

    def type_problems(self) -> list[str]:
        """Return why the types don't go together; nothing if they do."""
        if self.out_dtype in OUTPUTS[self.dtype]:
            return []
        return [f"a product of {self.dtype} is not {self.out_dtype}"]

    def output_parts(self) -> list[str]:
        """Return the parts of a name that say what C holds: none for the usual type."""
        usual = self.out_dtype == OUTPUTS[self.dtype][0]
        return [] if usual else [OUTPUT_SHORT[self.out_dtype]]


class OrientedConfig(TypedConfig):
    """What follows from the tile's place in the tensor cores: a base of its dataclass.

    Attributes
    ----------
    um, un
        The tile of C: rows and columns.
    swapped
        Whether the rows of the instructions are columns of C.
    """

    um: int
    un: int
    swapped: bool

    @property
    def rows(self) -> int:
        """Rows of the tile, as the instructions have it; those of one warpgroup in ping-pong."""
        return self.un if self.swapped else self.um

    @property
    def columns(self) -> int:
        """Columns of the tile, as the instructions have it."""
        return self.um if self.swapped else self.un


def contiguous_access(k: int, aligned_items: int) -> str:
    """Return how a GPU can read operands whose rows are ``k`` items and follow one another.

    ``aligned_items`` are those of 16 bytes.
    """
    if k % aligned_items == 0:
        return "tma"
    # Of rows of an odd number of bytes there would be too many tensor maps.
    return "residue" if k * min(aligned_items, MAX_RESIDUES) % aligned_items == 0 else "direct"


def deepest_ring(config: Config, limit: int) -> int:
    """Return the most stages, at most ``limit``, that leave room for all blocks; 0 for none."""
    fits = [
        stages for stages in range(2, limit + 1) if not replace(config, stages=stages).problems()
    ]
    return max(fits, default=0)
