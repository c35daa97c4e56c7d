"""Refit the costs of the kept micro-kernels on this machine's GPU, without a new search."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict

from moonpoly.autotune.candidates import Candidate, space_of
from moonpoly.autotune.costs import save_costs
from moonpoly.autotune.environment import environment
from moonpoly.autotune.gpu.cost_model import GRID, fit, tables
from moonpoly.autotune.gpu.measure import LaunchWorker
from moonpoly.autotune.gpu.program import program_of_trace
from moonpoly.autotune.gpu.search import compile_pool, compiled
from moonpoly.autotune.progress import progress
from moonpoly.autotune.records import TuningRecord
from moonpoly.autotune.sources import Sources
from moonpoly.target import Target

# More than while tuning: only what was kept is measured.
_SAMPLES, _CUTS = 160, 60


def calibrate_gpu(
    target: Target,
    candidates: Sequence[Candidate],
    records: Sequence[TuningRecord],
    sources: Sources,
) -> None:
    """Measure the launches of every kernel of the records and write their cost tables."""
    isa = space_of(target).facts.isa
    programs = [program_of_trace(c, isa, r.trace) for c, r in zip(candidates, records, strict=True)]
    pool = compile_pool()
    futures = [pool.submit(compiled, program, target) for program in programs]
    costs = {}
    with progress() as bar, LaunchWorker(candidates[0].dtype) as worker:
        for future in bar.track(futures, description=f"calibrating {target.name}"):
            kernel, image = future.result()
            name = kernel.program.name
            costs[name] = fit(name, worker.samples(kernel, image, _SAMPLES, _CUTS))
        small = next(i for i, p in enumerate(programs) if p.config.loads != "strided")
        constants = worker.constants(*futures[small].result())
    save_costs(
        sources.costs,
        tables(costs),
        grid=GRID,
        machine=asdict(constants),
        environment=environment(),
        records_path=sources.records,
    )
