"""Refit the costs of the kept micro-kernels on this machine's GPU, without a new search."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from moonpoly.autotune.candidates import Candidate, space_of
from moonpoly.autotune.costs import save_costs
from moonpoly.autotune.environment import environment
from moonpoly.autotune.gpu.cost_model import GRID, fit, tables
from moonpoly.autotune.gpu.launched_costs import launched_costs, refined_costs
from moonpoly.autotune.gpu.measure import LaunchWorker
from moonpoly.autotune.gpu.merged import build_merged
from moonpoly.autotune.gpu.program import Program, program_of_trace
from moonpoly.autotune.gpu.search import compile_pool, compiled
from moonpoly.autotune.gpu.workspace import GpuWorkspace
from moonpoly.autotune.progress import progress
from moonpoly.autotune.records import TuningRecord
from moonpoly.autotune.sources import Sources
from moonpoly.target import Target
from moonpoly.workload import Workload

# More than while tuning: only what was kept is measured.
_SAMPLES, _CUTS = 160, 60


def calibrate_gpu(
    target: Target,
    workload: Workload,
    candidates: Sequence[Candidate],
    records: Sequence[TuningRecord],
    launches: int,
    sources: Sources,
    known: dict[str, Any] | None = None,
) -> None:
    """Measure the launches of every kernel of the records and write their cost tables.

    Each kernel is sampled by itself; then all are launched as they are exported, on ``launches``
    drawn shapes and each over its own range, and the tables are fitted to that. Costs that are
    ``known``, as a cost file holds them, are moved by launches of other shapes instead, and nothing
    is sampled.

    Raises
    ------
    TuneError
        If a kernel fails.
    """
    isa = space_of(target).facts.isa
    programs = [program_of_trace(c, isa, r.trace) for c, r in zip(candidates, records, strict=True)]
    fitted = launched_costs if known is None else refined_costs
    known = known or _sampled(target, workload, programs)
    with TemporaryDirectory(prefix="moonpoly-") as folder:
        merged = build_merged(target, programs, GpuWorkspace(Path(folder)))
        costs = fitted(target, workload, merged, known, launches, Path(folder))
    save_costs(
        sources.costs,
        known["kernels"] | costs["kernels"],
        grid=costs["grid"],
        machine=costs["machine"],
        environment=environment(),
        records_path=sources.records,
    )


def _sampled(target: Target, workload: Workload, programs: Sequence[Program]) -> dict[str, Any]:
    """Return the tables of sampled launches, their axes and the machine's constants."""
    pool = compile_pool()
    futures = [pool.submit(compiled, program, target) for program in programs]
    costs = {}
    with progress() as bar, LaunchWorker(workload.dtype) as worker:
        for future in bar.track(futures, description=f"calibrating {target.name}"):
            kernel, image = future.result()
            name = kernel.program.name
            costs[name] = fit(name, worker.samples(kernel, image, _SAMPLES, _CUTS))
        small = next(i for i, p in enumerate(programs) if p.config.loads != "strided")
        constants = worker.constants(*futures[small].result())
    return {"kernels": tables(costs), "grid": GRID, "machine": asdict(constants)}
