"""x86-64: AVX-512 and AVX2.

The decisions that were found to matter, each measured on kernels with symbolic strides:

- the order of the two register loops: with the wrong one LLVM spills accumulators (2x slower);
- how far ahead B is prefetched: it doubles the speed of tall tiles whose B streams from memory and
  costs tiles of several panels next to nothing in cache. The prefetches stand at the end of a k
  step: in front of it they make LLVM spill. Which cache they go to matters little, but for free;
- unrolling k: a few per cent either way, more for low tiles.

Loading A or B through an explicit local buffer changed nothing, LLVM keeps both in registers. Rows
of tiles run inside columns of tiles always: a tile's panels of B then stay in the first cache.
"""

from __future__ import annotations

from collections.abc import Callable
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from .space import (
    PREFETCH_DISTANCE,
    PREFETCH_LEVEL,
    PREFETCH_OPERAND,
    Facts,
    SearchSpace,
    Tile,
)

if TYPE_CHECKING:
    from tvm.s_tir import Schedule

# In the order that the schedules below sample them.
DECISIONS = ("order", "unroll", "prefetch_distance", "prefetch_level")

# 0: rows of a tile outside, its panels inside; 1: the other way round.
ORDERS = (0, 1)
# Steps of k in one loop iteration; the remainder is a loop of its own.
UNROLLS = (1, 2, 4)
# Steps of the reduction loop; a step of an outer kernel reads one 64-byte line of each panel.
PREFETCH_DISTANCES = (0, 16, 32, 64, 128)
# LLVM's locality: 3 is the first cache, 2 the second.
PREFETCH_LEVELS = (3, 2)

# Dot kernels cover outputs with few columns or few rows.
_DOT_SIDE = 8
# More panels than this in a tile of one or two rows gain nothing: the loads of B are the limit.
_MAX_PANELS = 8


def schedule_outer(sch: Schedule) -> None:
    """Schedule the outer-product template: accumulators in registers, vectors along n."""
    order = sch.sample_categorical(list(ORDERS), _uniform(ORDERS))
    unroll = sch.sample_categorical(list(UNROLLS), _uniform(UNROLLS))
    multiply, write = sch.get_sblock("multiply"), sch.get_sblock("write")
    sch.set_scope(multiply, 0, "local")
    step, row, panel, _ = sch.get_loops(multiply)[-4:]
    if int(sch.get(order)) == 1:
        sch.reorder(panel, row)
    outer, inner = sch.split(step, [None, unroll])
    _to_registers(sch, multiply, 3)
    _to_registers(sch, write, 3)
    sch.unroll(inner)
    sch.decompose_reduction(multiply, outer)
    sch.annotate(outer, "pragma_loop_partition_hint", 1)
    _prefetch(sch, outer, operand=1)


def schedule_dot(sch: Schedule) -> None:
    """Schedule the dot-product template: partial sums in registers, vectors along k."""
    order = sch.sample_categorical(list(ORDERS), _uniform(ORDERS))
    unroll = sch.sample_categorical(list(UNROLLS), _uniform(UNROLLS))
    blocks = {name: sch.get_sblock(name) for name in ("multiply", "fold", "total", "tail", "write")}
    for name in ("multiply", "fold", "total", "tail"):
        sch.set_scope(blocks[name], 0, "local")
    step, row, column, _ = sch.get_loops(blocks["multiply"])[-4:]
    if int(sch.get(order)) == 1:
        sch.reorder(column, row)
    outer, inner = sch.split(step, [None, unroll])
    _to_registers(sch, blocks["multiply"], 3)
    sch.unroll(inner)
    sch.decompose_reduction(blocks["multiply"], outer)
    sch.annotate(outer, "pragma_loop_partition_hint", 1)
    _to_registers(sch, blocks["fold"], 4)
    sch.decompose_reduction(blocks["fold"], sch.get_loops(blocks["fold"])[-2])
    for loop in sch.get_loops(blocks["total"])[-3:]:
        sch.unroll(loop)
    sch.decompose_reduction(blocks["total"], sch.get_loops(blocks["total"])[-1])
    tail = sch.get_loops(blocks["tail"])[-3:]
    for loop in tail[1:]:
        sch.unroll(loop)
    sch.decompose_reduction(blocks["tail"], tail[0])
    for loop in sch.get_loops(blocks["write"])[-2:]:
        sch.unroll(loop)
    _prefetch(sch, outer, operand=0)


def _to_registers(sch: Schedule, block: Any, num_loops: int) -> None:
    """Unroll the innermost loops of ``block`` and make the last one a vector."""
    *scalar, vector = sch.get_loops(block)[-num_loops:]
    for loop in scalar:
        sch.unroll(loop)
    sch.vectorize(vector)


def _prefetch(sch: Schedule, loop: Any, operand: int) -> None:
    distance = sch.sample_categorical(list(PREFETCH_DISTANCES), _uniform(PREFETCH_DISTANCES))
    level = sch.sample_categorical(list(PREFETCH_LEVELS), _uniform(PREFETCH_LEVELS))
    sch.annotate(loop, PREFETCH_OPERAND, operand)
    sch.annotate(loop, PREFETCH_DISTANCE, distance)
    sch.annotate(loop, PREFETCH_LEVEL, level)


def _uniform(candidates: tuple[int, ...]) -> list[float]:
    return [1.0 / len(candidates)] * len(candidates)


def _tiles(facts: Facts) -> tuple[Tile, ...]:
    """Return every tile whose accumulators and operands fit in the registers.

    An outer tile needs its accumulators, one vector of B for each panel and one broadcast of A.
    A dot tile needs its partial sums, the vectors of the shorter side and one of the other.
    """
    outer = (
        Tile("outer", um, panels * facts.lanes)
        for panels in range(1, _MAX_PANELS + 1)
        for um in range(1, facts.max_rows + 1)
        if um * panels + panels + 1 <= facts.registers
    )
    dot = (
        Tile("dot", um, un)
        for um in range(1, _DOT_SIDE + 1)
        for un in range(1, _DOT_SIDE + 1)
        if um * un + min(um, un) + 1 <= facts.registers
    )
    return (*outer, *dot)


def _space(facts: Facts) -> SearchSpace:
    schedules: dict[str, Callable[[Schedule], None]] = {
        "outer": schedule_outer,
        "dot": schedule_dot,
    }
    return SearchSpace(facts, _tiles(facts), MappingProxyType(schedules), DECISIONS)


AVX512 = _space(Facts(isa="avx512", registers=32, lanes=16, max_rows=14))
AVX2 = _space(Facts(isa="avx2", registers=16, lanes=8, max_rows=14))
