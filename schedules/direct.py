"""Programs of any GPU with mma instructions that load straight into registers: what to try.

A warp has 16 to 64 rows of the instructions. More warps share the reduction, or are side by side
where it is short. Blocks are as many as the registers hold.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from functools import cache, partial
from itertools import product
from typing import TYPE_CHECKING

from moonpoly.tir_templates.direct.config import DirectConfig
from moonpoly.workload import OUTPUTS

from .annotate import annotate_decisions
from .space import Tile

if TYPE_CHECKING:
    from tvm.s_tir import Schedule

FAMILY = "direct"
# In the order that they are sampled.
DECISIONS = ("swapped", "warps_p", "warps_k", "stages", "blocks")

# Rows of the instructions, of all warps together, and columns.
_ROWS = (16, 32, 64, 128)
_COLUMNS = (8, 16, 32, 64)
_MAX_WARP_ROWS = {8: 64, 16: 64, 32: 64, 64: 32}
_WARPS_P = (1, 2, 4)
_WARPS_K = (1, 2, 4, 8)
_MAX_WARPS = 8
_STAGES = (1, 2, 4)
_BLOCKS = (16, 12, 8, 6, 4, 3, 2, 1)
# Fewer warps on a multiprocessor leave it waiting.
_FEWEST_WARPS = 8


def schedule_tile(sch: Schedule) -> None:
    """Sample the decisions of a tile program and leave them at the block."""
    annotate_decisions(sch, FAMILY, configs, DECISIONS)


@cache
def configs(tile: Tile, dtype: str = "float16") -> tuple[DirectConfig, ...]:
    """Return every program of a tile that can be built and is worth measuring."""
    found: list[DirectConfig] = []
    for swapped in (False, True):
        rows, columns = (tile.un, tile.um) if swapped else (tile.um, tile.un)
        if rows in _ROWS and columns in _COLUMNS:
            found += _oriented(tile, dtype, swapped, _MAX_WARP_ROWS[columns])
    return tuple(found)


def _oriented(tile: Tile, dtype: str, swapped: bool, most_rows: int) -> Iterator[DirectConfig]:
    make = partial(DirectConfig, tile.um, tile.un, dtype=dtype, out_dtype=OUTPUTS[dtype][0])
    for warps_p, warps_k, stages in product(_WARPS_P, _WARPS_K, _STAGES):
        config = make(stages, swapped=swapped, warps_p=warps_p, warps_k=warps_k, blocks=1)
        if warps_p * warps_k > _MAX_WARPS or config.warp_rows > most_rows:
            continue
        fitting = (replace(config, blocks=blocks) for blocks in _BLOCKS)
        best = next((each for each in fitting if not each.problems()), None)
        if best is not None and best.blocks * warps_p * warps_k >= _FEWEST_WARPS:
            yield best


def tiles() -> Iterable[Tile]:
    """Return every tile, each once."""
    sizes = set(product(_ROWS, _COLUMNS))
    for um, un in sorted(sizes | {(columns, rows) for rows, columns in sizes}):
        if configs(Tile(FAMILY, um, un)):
            yield Tile(FAMILY, um, un)
