"""NVIDIA GPUs of compute capability 9.0 (H100, H200): which tile programs are worth trying.

A tile program can't be scheduled by primitives; a schedule here samples its decisions and leaves
them as annotations of the tile's block. What is possible follows from constraints: shared memory,
registers, the depth of the ring (``WgmmaConfig.problems``). What is worth trying was measured:

- tiles come in steps of 8 along one axis, so that some tile fills every multiprocessor exactly;
- in ping-pong one warpgroup stores while the other multiplies, which pays for short reductions;
- two or three small blocks on a multiprocessor hide each other's latencies;
- blocks that share loads by multicast pay where tiles fetch as fast as the second-level cache
  gives, as in most products of one wave: clusters are of two or four blocks, along either axis;
- a cut reduction pays for small outputs, and large tiles fetch less of long ones;
- short products are over sooner without tensor maps and rings (``direct``).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from functools import cache, partial
from itertools import product
from types import MappingProxyType
from typing import TYPE_CHECKING

from moonpoly.tir_templates.direct.config import DirectConfig
from moonpoly.tir_templates.gemv.config import GemvConfig
from moonpoly.tir_templates.items import deepest_ring
from moonpoly.tir_templates.wgmma.config import WgmmaConfig
from moonpoly.workload import OUTPUTS

from . import direct
from .annotate import annotate_decisions
from .space import Facts, SearchSpace, Tile

if TYPE_CHECKING:
    from tvm.s_tir import Schedule

# In the order that they are sampled; the ring comes last because the others bound it.
DECISIONS = ("swapped", "pingpong", "split", "cluster_p", "cluster_q", "blocks", "stages")

# Columns of the tensor cores for each number of rows (of all consumers together).
_WHOLE_COLUMNS = {
    64: (*range(8, 65, 8), *range(72, 129, 8), *range(144, 257, 16)),
    128: (8, 16, 24, 32, *range(40, 201, 8), 208, 224, 240, 256),
    192: tuple(range(64, 193, 8)),
    256: (8, 16, 32, 64, *range(80, 209, 8)),
}
_SPLIT_COLUMNS = {
    64: (8, 16, 24, 32, 48, 64, 80, 96, 128, 160),
    128: (16, 32, 48, 64, 80, 96, 112, 128, 144, 160, 192, 224, 256),
    192: (64, 96, 128, 160, 192),
    256: (64, 96, 128),
}
_RESIDUE_COLUMNS = {
    64: (8, 16, 32, 48, 64, 96, 128),
    128: (16, 32, 64, 96, 128),
}
# More rows than these are more than the registers of the threads that load can hold.
_STRIDED_COLUMNS = {64: (16, 64)}

# Items of one row or column that a block of eight warps works on.
_VECTOR_LINES = (1, 4, 8, 16, 32)

# More slots than this only make a kernel slower to start.
_DEEPEST = 12
# A shallower ring leaves the start of a kernel shorter; below this one, copies are not hidden.
_SHALLOWEST = 3
_MAX_BLOCKS = 4
# Blocks of a cluster that share loads, along p and along q.
_CLUSTERS = ((1, 1), (2, 1), (1, 2), (4, 1), (2, 2))
# Tiles with more rows share loads by pairs only: of larger clusters too few fit.
_MOST_SHARED_ROWS = 128


def schedule_tile(sch: Schedule, family: str) -> None:
    """Sample the decisions of a tile program and leave them at the block."""
    annotate_decisions(sch, family, configs, DECISIONS)


@cache
def configs(
    tile: Tile, dtype: str = "float16"
) -> tuple[WgmmaConfig, ...] | tuple[GemvConfig, ...] | tuple[DirectConfig, ...]:
    """Return every program of a tile that can be built and is worth measuring."""
    if tile.family == direct.FAMILY:
        return direct.configs(tile, dtype)
    if tile.family == "gemv":
        return tuple(_vectors(tile, dtype))
    found: list[WgmmaConfig] = []
    for swapped in (False, True):
        rows, columns = (tile.un, tile.um) if swapped else (tile.um, tile.un)
        if columns in _COLUMNS[tile.family].get(rows, ()):
            found += list(_oriented(tile, dtype, swapped, rows))
    return tuple(found)


def _oriented(tile: Tile, dtype: str, swapped: bool, rows: int) -> Iterator[WgmmaConfig]:
    whole = tile.family == "whole"
    base = WgmmaConfig(
        tile.um,
        tile.un,
        stages=_SHALLOWEST,
        consumers=consumers_of(rows),
        swapped=swapped,
        split=not whole,
        loads="tma" if tile.family in ("whole", "split") else tile.family,
        dtype=dtype,
        out_dtype=OUTPUTS[dtype][0],
    )
    clusters = [(p, q) for p, q in _CLUSTERS if p * q <= _most_sharing(rows, whole=whole)]
    pingpong = (False, True) if whole and rows <= 128 else (False,)
    several = 1 if tile.family == "strided" else _MAX_BLOCKS
    for alternate, (p, q), blocks in product(pingpong, clusters, range(1, several + 1)):
        config = replace(
            base,
            pingpong=alternate,
            consumers=2 if alternate else base.consumers,
            cluster_p=p,
            cluster_q=q,
            blocks=blocks,
        )
        # Each of these hides latencies; together they were never better.
        if blocks > 1 and (config.cluster > 1 or config.pingpong):
            continue
        deepest = deepest_ring(config, _DEEPEST)
        if deepest >= _SHALLOWEST:
            yield replace(config, stages=deepest)


def _most_sharing(rows: int, *, whole: bool) -> int:
    """Return how many blocks may share loads."""
    if not whole:
        return 1
    return 4 if rows <= _MOST_SHARED_ROWS else 2


def _vectors(tile: Tile, dtype: str) -> Iterator[GemvConfig]:
    for stages, blocks in product((1, 2, 4), (2, 4)):
        config = GemvConfig(tile.um, tile.un, stages, blocks, dtype, OUTPUTS[dtype][0])
        if not config.problems():
            yield config


def consumers_of(rows: int) -> int:
    """Return the warpgroups of a tile: 64 rows each, but two for the largest, of 128."""
    return {64: 1, 128: 2, 192: 3, 256: 2}[rows]


_COLUMNS = {
    "whole": _WHOLE_COLUMNS,
    "split": _SPLIT_COLUMNS,
    "residue": _RESIDUE_COLUMNS,
    "strided": _STRIDED_COLUMNS,
}


def _tiles() -> Iterable[Tile]:
    """Return every tile, each once, in both orientations of the tensor cores."""
    for lines in _VECTOR_LINES:
        yield Tile("gemv", 1, lines)
        if lines > 1:
            yield Tile("gemv", lines, 1)
    for family, by_rows in _COLUMNS.items():
        sizes = {(rows, columns) for rows, several in by_rows.items() for columns in several}
        for um, un in sorted(sizes | {(columns, rows) for rows, columns in sizes}):
            tile = Tile(family, um, un)
            if configs(tile):
                yield tile
    yield from direct.tiles()


_SCHEDULES: dict[str, Callable[[Schedule], None]] = {
    family: partial(schedule_tile, family=family) for family in (*_COLUMNS, "gemv")
}
_SCHEDULES[direct.FAMILY] = direct.schedule_tile

SM90A = SearchSpace(
    Facts(isa="sm90a", registers=255, lanes=8, max_rows=256),
    tuple(_tiles()),
    MappingProxyType(_SCHEDULES),
    DECISIONS,
    MappingProxyType({direct.FAMILY: direct.DECISIONS}),
)

# Clusters that may share one tile: partial sums of more are slower to add up than to make.
MAX_SLICES = 16
