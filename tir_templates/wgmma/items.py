"""Element types as the tensor cores take them: widths, instructions and sums.

An instruction takes 32 bytes of k of both operands, whatever the type; a stage of the ring is 128.
"""

from __future__ import annotations

from dataclasses import dataclass
from types import MappingProxyType

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

    def instruction(self, columns: int) -> str:
        """Return the instruction for a tile of 64 rows and so many columns."""
        kind = "s32" if self.sums == "uint32" else "f32"
        shape = f"m64n{columns}k{self.depth}"
        return f"wgmma.mma_async.sync.aligned.{shape}.{kind}.{self.short}.{self.short}"

    @property
    def mma(self) -> str | None:
        """Return the instruction of one warp, 16 rows by 8 columns, on GPUs before Hopper."""
        if self.short == "e4m3":
            return None
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
