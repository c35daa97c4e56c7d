"""From a candidate and its decisions to a tile program."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from typing import Any, TypeAlias

import tvm
from tvm import s_tir, tirx

from moonpoly.autotune.candidates import Candidate
from moonpoly.autotune.generate import MAIN
from moonpoly.schedules import direct, mma
from moonpoly.schedules.annotate import PREFIX
from moonpoly.schedules.cuda import DECISIONS, consumers_of
from moonpoly.tir_templates import template
from moonpoly.tir_templates.direct.config import DirectConfig
from moonpoly.tir_templates.gemv.config import GemvConfig
from moonpoly.tir_templates.mma.config import MmaConfig
from moonpoly.tir_templates.wgmma.config import WgmmaConfig
from moonpoly.tir_templates.wgmma.merge import merge_alike
from moonpoly.workload import Workload

# What a GPU program is made of, of any kind.
TileConfig: TypeAlias = WgmmaConfig | DirectConfig | GemvConfig | MmaConfig

_LOADS = {"whole": "tma", "split": "tma", "residue": "residue", "strided": "strided"}
_FLAGS = {field.name for field in fields(WgmmaConfig) if field.type == "bool"}


@dataclass(frozen=True)
class Program:
    """A tile program with its kernel's name.

    Parameters
    ----------
    name
        The kernel's name, which says all of its configuration.
    config
        What it is generated from.
    """

    name: str
    config: TileConfig


def tile_module(candidate: Candidate) -> tvm.IRModule:
    """Return the block that MetaSchedule schedules in place of the tile program."""
    tile = candidate.tile
    func = template(tile.family)(tile.um, tile.un, candidate.lanes, candidate.dtype)
    return tvm.IRModule({MAIN: func})


def program_of_trace(candidate: Candidate, isa: str, trace: Any) -> Program:
    """Return the program of a trace in its JSON form."""
    sch = s_tir.Schedule(tile_module(candidate))
    s_tir.schedule.Trace.apply_json_to_schedule(trace, sch)
    return program_of_schedule(candidate, isa, sch)


def program_of_schedule(candidate: Candidate, isa: str, sch: s_tir.Schedule) -> Program:
    """Return the program that the annotations of a schedule describe."""
    annotations = sch.get(sch.get_sblock("multiply")).annotations
    tile = candidate.tile
    if tile.family in mma.LOADS:
        warps = MmaConfig(
            tile.um,
            tile.un,
            loads=mma.LOADS[tile.family],
            dtype=candidate.dtype,
            out_dtype=candidate.out_dtype,
            **{field: _plain(annotations[PREFIX + field]) for field in mma.DECISIONS},
        )
        return Program(warps.name(isa), warps)
    if tile.family == direct.FAMILY:
        decided = {field: _plain(annotations[PREFIX + field]) for field in direct.DECISIONS}
        registers = DirectConfig(
            tile.um,
            tile.un,
            swapped=bool(decided.pop("swapped")),
            dtype=candidate.dtype,
            out_dtype=candidate.out_dtype,
            **decided,
        )
        return Program(registers.name(isa), registers)
    decided = {field: _plain(annotations[PREFIX + field]) for field in DECISIONS}
    chosen: dict[str, Any] = {
        field: bool(value) if field in _FLAGS else value for field, value in decided.items()
    }
    if tile.family == "gemv":
        vector = GemvConfig(
            tile.um,
            tile.un,
            stages=int(chosen["stages"]),
            blocks=int(chosen["blocks"]),
            dtype=candidate.dtype,
            out_dtype=candidate.out_dtype,
        )
        return Program(vector.name(isa), vector)
    rows = tile.un if chosen["swapped"] else tile.um
    config = WgmmaConfig(
        um=tile.um,
        un=tile.un,
        consumers=2 if chosen["pingpong"] else consumers_of(rows),
        loads=_LOADS[tile.family],
        dtype=candidate.dtype,
        out_dtype=candidate.out_dtype,
        **chosen,
    )
    return Program(config.name(isa), config)


def merge_programs(programs: Sequence[Program], isa: str) -> dict[Program, tuple[Program, ...]]:
    """Return the programs to compile, each with those of the given ones that it serves."""
    merged: dict[Program, tuple[Program, ...]] = {}
    tiles = {p.config: p for p in programs if isinstance(p.config, WgmmaConfig)}
    for config, served in merge_alike(tiles).items():
        merged[Program(config.name(isa), config)] = tuple(tiles[each] for each in served)
    others = {p: (p,) for p in programs if p.config not in tiles}
    return merged | others


def recorded_names(program: Program, isa: str) -> tuple[str, ...]:
    """Return the names that a program's record and costs may have: its own first, then its likes'.

    A record of one type serves another that runs alike.
    """
    config = program.config
    likes = Workload("gemm", config.dtype, config.out_dtype).likes
    return (
        program.name,
        *(replace(config, dtype=w.dtype, out_dtype=w.out_dtype).name(isa) for w in likes),
    )


def _plain(value: Any) -> int:
    return int(value.value if isinstance(value, tirx.IntImm) else value)
