"""A GPU artifact's manifest without its code: enough to make plans, at once and anywhere."""

from __future__ import annotations

from typing import Any

from moonpoly.autotune.artifact import SCHEMA
from moonpoly.autotune.costs import load_costs
from moonpoly.autotune.export import candidates_of
from moonpoly.autotune.gpu.export import costs_of, describe, program_of
from moonpoly.autotune.gpu.program import Program
from moonpoly.autotune.records import load_records
from moonpoly.autotune.sources import current_sources
from moonpoly.target import Target
from moonpoly.workload import Workload


def planning_manifest(target: Target, workload: Workload) -> dict[str, Any]:
    """Return the manifest of a GPU's kernels as their records and costs tell it.

    Nothing is compiled, so neither a GPU nor its compiler is needed; a kernel set made of it can
    plan and not run.

    Raises
    ------
    ArtifactError
        If there are no records for the target, or records and costs don't belong together.
    """
    sources = current_sources(target, workload)
    records = load_records(sources.records)
    costs = load_costs(sources.costs, sources.records)
    candidates = candidates_of(records, target, workload)
    programs = [program_of(target, c, r) for c, r in zip(candidates, records, strict=True)]
    tables = costs_of(target, programs, costs)
    return {
        "schema": SCHEMA,
        "target": target.to_dict(),
        "op": workload.op,
        "dtype": workload.dtype,
        "out_dtype": workload.out_dtype,
        "digest": sources.digest(),
        "grid": costs["grid"],
        "kernels": [_uncompiled(program, tables) for program in programs],
        "machine": costs["machine"],
    }


def _uncompiled(program: Program, costs: dict[str, Any]) -> dict[str, Any]:
    """Describe a kernel: nothing that only running it needs, and the parameter that plans need."""
    params = ["grid", *["slices"] * program.config.slices]
    return describe(program, costs) | {"symbol": "", "cubin": "", "params": params}
