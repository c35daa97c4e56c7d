"""NVIDIA GPUs of compute capability 8.0 (A100): which tile programs are worth trying.

As for Hopper, a schedule samples decisions and leaves them as annotations of the tile's block; what
is possible follows from shared memory and registers (``MmaConfig.problems``). Any number of warps
shares a tile; two to four slots hide the copies, fewer where several blocks take turns.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from functools import cache, partial
from itertools import product
from types import MappingProxyType
from typing import TYPE_CHECKING

from moonpoly.tir_templates.items import ITEMS, deepest_ring
from moonpoly.tir_templates.mma.config import MmaConfig
from moonpoly.workload import OUTPUTS

from .annotate import annotate_decisions
from .space import Facts, SearchSpace, Tile

if TYPE_CHECKING:
    from tvm.s_tir import Schedule

# How each family loads.
LOADS = MappingProxyType({"async": "async", "gathered": "strided"})
DECISIONS = ("warps_m", "warps_n", "blocks", "stages")

_SIDES = (32, 64, 96, 128, 192, 256)
_LARGEST_ITEMS = 128 * 256
_WARPS = (1, 2, 4)
_FEWEST_WARPS, _MOST_WARPS = 4, 8
# Threads that load by themselves have more to keep in registers: these are the most.
_GATHERING_WARPS = 8
_GATHERED_SIDES = (32, 64)
_DEEPEST = 5
_MAX_BLOCKS = 3


def schedule_tile(sch: Schedule, family: str) -> None:
    """Sample the decisions of a tile program and leave them at the block."""
    annotate_decisions(sch, family, configs, DECISIONS)


@cache
def configs(tile: Tile, dtype: str = "float16") -> tuple[MmaConfig, ...]:
    """Return every program of a tile that can be built and is worth measuring."""
    return tuple(_configs(tile, dtype))


def _configs(tile: Tile, dtype: str) -> Iterator[MmaConfig]:
    for warps_m, warps_n, blocks in product(_WARPS, _WARPS, range(1, _MAX_BLOCKS + 1)):
        fewest = _GATHERING_WARPS if tile.family == "gathered" else _FEWEST_WARPS
        if not fewest <= warps_m * warps_n <= _MOST_WARPS:
            continue
        config = MmaConfig(
            tile.um,
            tile.un,
            stages=2,
            warps_m=warps_m,
            warps_n=warps_n,
            blocks=blocks,
            loads=LOADS[tile.family],
            dtype=dtype,
            out_dtype=OUTPUTS[dtype][0],
        )
        deepest = deepest_ring(config, _DEEPEST)
        if deepest:
            yield replace(config, stages=deepest)


def _tiles() -> Iterable[Tile]:
    for family, sides in (("async", _SIDES), ("gathered", _GATHERED_SIDES)):
        for um, un in product(sides, sides):
            tile = Tile(family, um, un)
            if um * un <= _LARGEST_ITEMS and any(configs(tile, dtype) for dtype in ITEMS):
                yield tile


SM80 = SearchSpace(
    Facts(isa="sm80", registers=255, lanes=8, max_rows=256),
    tuple(_tiles()),
    MappingProxyType({family: partial(schedule_tile, family=family) for family in LOADS}),
    DECISIONS,
)
