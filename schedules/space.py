"""What a target's search space consists of."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import tvm.s_tir


# Loop annotations for what TVM has no schedule primitive for: which argument is prefetched, how
# many steps of the reduction ahead, and LLVM's locality (3: first cache, 2: second).
PREFETCH_OPERAND = "moonpoly.prefetch_operand"
PREFETCH_DISTANCE = "moonpoly.prefetch_distance"
PREFETCH_LEVEL = "moonpoly.prefetch_level"


@dataclass(frozen=True, order=True)
class Tile:
    """The fixed size of a micro-kernel's tile and the family of its template."""

    family: str
    um: int
    un: int


@dataclass(frozen=True)
class Facts:
    """What the search must know of a processor.

    Parameters
    ----------
    isa
        The part of a kernel's name that says what it needs.
    registers
        Vector registers.
    lanes
        Elements of float32 in one of them.
    max_rows
        Rows of A that a tile may walk at once. Rows a power of two apart share one set of the
        first cache, so more rows than it has ways (and a little more) evict each other.
    """

    isa: str
    registers: int
    lanes: int
    max_rows: int


@dataclass(frozen=True)
class SearchSpace:
    """The tiles of a target and how each family is scheduled.

    Parameters
    ----------
    facts
        The processor.
    tiles
        Every tile that is tuned.
    schedules
        For each family, a function that applies a schedule with sampled decisions.
    decisions
        The names of the sampled decisions, in the order they are sampled. One is ``"unroll"``.
    own_decisions
        Those of families that have others.
    """

    facts: Facts
    tiles: tuple[Tile, ...]
    schedules: Mapping[str, Callable[[tvm.s_tir.Schedule], None]]
    decisions: tuple[str, ...]
    own_decisions: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    def decisions_of(self, family: str) -> tuple[str, ...]:
        """Return the names of a family's sampled decisions, in their order."""
        return self.own_decisions.get(family, self.decisions)
