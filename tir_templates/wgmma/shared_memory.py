"""Where everything lies in the shared memory of a Hopper tile program's block."""

from __future__ import annotations

from ..items import ALIGNED_BYTES, ROW_BYTES, OrientedConfig

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


class SharedMemory(OrientedConfig):
    """The layout of shared memory: a base of a program's configuration.

    Barriers come first, then staged results, then the ring; partial sums lie where the ring was.

    Attributes
    ----------
    stages, consumers, split, loads
        See :class:`~.config.WgmmaConfig`.
    """

    stages: int
    consumers: int
    split: bool
    loads: str

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
    def sum_bytes(self) -> int:
        """Bytes of a tile of partial sums in shared memory."""
        return self.um * self.sum_pitch * 4


def _up(value: int, unit: int) -> int:
    return -(-value // unit) * unit
