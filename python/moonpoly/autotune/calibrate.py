"""Refit the task costs of the kept micro-kernels on this machine, without a new search."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass

from moonpoly.autotune.candidates import Candidate
from moonpoly.autotune.cost_model import GRID, Samples, fit, tables
from moonpoly.autotune.costs import load_costs, save_costs
from moonpoly.autotune.environment import environment
from moonpoly.autotune.export import candidates_of, rebuild
from moonpoly.autotune.gpu.calibrate import calibrate_gpu
from moonpoly.autotune.gpu.launched_costs import num_launches
from moonpoly.autotune.launcher import Launcher, pinned
from moonpoly.autotune.machine import measure_machine
from moonpoly.autotune.progress import progress
from moonpoly.autotune.records import TuningRecord, load_records
from moonpoly.autotune.sample import plan_samples
from moonpoly.autotune.sources import Sources, current_sources, own_sources
from moonpoly.error import TuneError
from moonpoly.target import Target
from moonpoly.workload import Workload

# Spent on each sample, in all of its passes.
SAMPLE_MS = 1.0


@dataclass(frozen=True)
class Calibration:
    """What was measured.

    Parameters
    ----------
    sources
        The records used and the cost tables written.
    num_kernels
        Micro-kernels measured.
    seconds
        What it took, from compiling them to writing the tables.
    """

    sources: Sources
    num_kernels: int
    seconds: float


def calibrate(
    target: Target, workload: Workload, *, launches: int | None = None, refine: bool = False
) -> Calibration:
    """Measure and fit the task costs of this machine; artifacts are made with them from then on.

    Takes less than two minutes on all cores, which should be otherwise idle; on a GPU three. The
    records stay as they are; the new cost tables are kept in the user's cache.

    Parameters
    ----------
    target, workload
        Whose micro-kernels to measure: this machine must be able to run them.
    launches
        For a GPU: shapes to record launches on; 120 if None.
    refine
        For a GPU: move the costs that are there by what is recorded, instead of fitting new ones.

    Returns
    -------
    calibration
        What was measured and where its tables are.

    Raises
    ------
    TargetError
        If this machine can't run the target's code.
    TuneError
        If ``launches`` or ``refine`` is given for a processor, or launches fail.
    ArtifactError
        If there are no records for the target.
    StorageError
        If the cache can't be written.
    """
    launches = num_launches(target, launches)
    if refine and not target.is_gpu:
        raise TuneError(f"only costs of GPUs are refined; leave --refine out for {target.name}")
    start = time.perf_counter()
    target.require_host()
    current = current_sources(target, workload)
    records = load_records(current.records)
    kernels = candidates_of(records, target, workload)
    sources = Sources(current.records, own_sources(target, workload).costs)
    if target.is_gpu:
        known = load_costs(current.costs, current.records) if refine else None
        calibrate_gpu(target, workload, kernels, records, launches, sources, known)
    else:
        _calibrate_cpu(target, workload, kernels, records, sources)
    return Calibration(sources, len(kernels), time.perf_counter() - start)


def _calibrate_cpu(
    target: Target,
    workload: Workload,
    kernels: Sequence[Candidate],
    records: Sequence[TuningRecord],
    sources: Sources,
) -> None:
    samples = []
    with progress() as bar:
        step = bar.add_task(f"calibrating {target.name} {workload.key}", total=len(kernels) + 2)
        programs = {c: rebuild(c, r) for c, r in zip(kernels, records, strict=True)}
        launcher = Launcher(programs, target)
        with pinned():
            machine = measure_machine(launcher, kernels[0].lanes)
            bar.advance(step)
            for candidate in kernels:
                shapes = plan_samples(candidate, launcher.own_cache_bytes)
                costs = launcher.task_costs(candidate, shapes, SAMPLE_MS)
                samples.append(Samples(candidate, shapes, costs))
                bar.advance(step)
        costs_by_layout = tables(fit(samples, launcher.own_cache_bytes))
        bar.advance(step)
    save_costs(
        sources.costs,
        costs_by_layout,
        grid=GRID,
        machine=asdict(machine),
        environment=environment(),
        records_path=sources.records,
    )
