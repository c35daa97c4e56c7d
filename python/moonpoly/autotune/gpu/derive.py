"""Micro-kernels of one type from those of another: the same tiles, rings and clusters.

A stage of the ring is 128 bytes of k whatever the type, and the tensor cores take as long for 32
bytes of any type; a thread of a direct kernel has 16 bytes of k of each of its rows. So what was
found for float16 is what to begin with for 8 and 32 bits; costs are those of as many bytes, until
launches are measured. What a type has no instruction for, or what spills in it, is left out.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from moonpoly.autotune.candidates import candidates, space_of
from moonpoly.autotune.costs import load_costs, save_costs
from moonpoly.autotune.gpu.merged import build_merged
from moonpoly.autotune.gpu.program import Program, program_of_trace
from moonpoly.autotune.gpu.workspace import GpuWorkspace
from moonpoly.autotune.records import TuningRecord, load_records, save_records
from moonpoly.autotune.sources import Sources, current_sources
from moonpoly.error import TuneError
from moonpoly.schedules import Tile
from moonpoly.target import Target
from moonpoly.tir_templates.items import ITEMS
from moonpoly.workload import Workload


def derive(target: Target, workload: Workload, like: Workload, output: Sources) -> None:
    """Write records and costs of ``workload`` made from those of ``like``; no GPU is needed.

    Every kernel is compiled, to leave out those that spill.

    Raises
    ------
    ArtifactError
        If there are none of ``like``.
    TargetError
        If there is no compiler.
    TuneError
        If no kernel of ``like`` can be built for the type.
    """
    if not target.is_gpu:
        raise TuneError(f"micro-kernels of {target.name} are not alike for different types")
    source = current_sources(target, like)
    records = load_records(source.records)
    costs = load_costs(source.costs, source.records)
    programs = translated(target, workload, records)
    spilling = spilled(target, list(programs.values()))
    names = {old: each.name for old, each in programs.items() if each.name not in spilling}
    if not names:
        raise TuneError(f"no micro-kernel of {like.key} can be built for {workload.key}")
    kept = [replace(r, kernel=names[r.kernel]) for r in records if r.kernel in names]
    output.records.parent.mkdir(parents=True, exist_ok=True)
    save_records(output.records, [replace(r, gflops={}, trials=0) for r in kept])
    known: dict[str, Any] = costs["kernels"]
    save_costs(
        output.costs,
        {name: known[old] for old, name in names.items()},
        grid=_by_bytes(costs["grid"], like, workload),
        machine=costs["machine"],
        environment=costs["environment"],
        records_path=output.records,
    )


def translated(
    target: Target, workload: Workload, records: Sequence[TuningRecord]
) -> dict[str, Program]:
    """Return each kernel's program in a workload, without those of what it can't have."""
    known = {candidate.tile: candidate for candidate in candidates(target, workload)}
    isa = space_of(target).facts.isa
    programs = {}
    for record in records:
        candidate = known[Tile(record.family, record.um, record.un)]
        program = program_of_trace(candidate, isa, record.trace)
        if not program.config.problems():
            programs[record.kernel] = program
    return programs


def spilled(target: Target, programs: Sequence[Program]) -> set[str]:
    """Compile programs; return the names of those whose registers don't hold what they need."""
    with TemporaryDirectory(prefix="moonpoly-") as folder:
        built = build_merged(target, programs, GpuWorkspace(Path(folder)))
    return {program.name for program in programs} - {program.name for program in built.programs}


def _by_bytes(grid: dict[str, Any], like: Workload, workload: Workload) -> dict[str, Any]:
    """Return the axes of tables whose k is as many bytes."""
    ours, theirs = ITEMS[workload.dtype].bytes, ITEMS[like.dtype].bytes
    return {**grid, "k": [k * theirs // ours for k in grid["k"]]}
