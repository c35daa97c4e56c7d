"""Refit the task costs of the kept micro-kernels on this machine, without a new search."""

from __future__ import annotations

from dataclasses import asdict

from moonpoly.autotune.cost_model import GRID, Samples, fit, tables
from moonpoly.autotune.costs import save_costs
from moonpoly.autotune.environment import environment
from moonpoly.autotune.export import candidates_of, rebuild
from moonpoly.autotune.gpu.calibrate import calibrate_gpu
from moonpoly.autotune.launcher import Launcher, pinned
from moonpoly.autotune.machine import measure_machine
from moonpoly.autotune.progress import progress
from moonpoly.autotune.records import load_records
from moonpoly.autotune.sample import plan_samples
from moonpoly.autotune.sources import Sources, current_sources, own_sources
from moonpoly.target import Target
from moonpoly.workload import Workload

_SAMPLE_MS = 1.0


def calibrate(target: Target, workload: Workload) -> Sources:
    """Measure and fit the task costs of this machine; artifacts are made with them from then on.

    Takes one to two minutes on all cores, which should be otherwise idle. The records stay as they
    are; the new cost tables are kept in the user's cache.

    Parameters
    ----------
    target, workload
        Whose micro-kernels to measure: this machine must be able to run them.

    Returns
    -------
    sources
        The records used and the cost tables written.

    Raises
    ------
    TargetError
        If this machine can't run the target's code.
    ArtifactError
        If there are no records for the target.
    StorageError
        If the cache can't be written.
    """
    target.require_host()
    records_path = current_sources(target, workload).records
    records = load_records(records_path)
    kernels = candidates_of(records, target, workload)
    output = own_sources(target, workload).costs
    if target.is_gpu:
        calibrate_gpu(target, kernels, records, Sources(records_path, output))
        return Sources(records_path, output)
    samples = []
    with progress() as bar, pinned():
        step = bar.add_task(f"calibrating {target.name} {workload.key}", total=len(kernels) + 1)
        programs = {c: rebuild(c, r) for c, r in zip(kernels, records, strict=True)}
        launcher = Launcher(programs, target)
        machine = measure_machine(launcher, kernels[0].lanes)
        bar.advance(step)
        for candidate in kernels:
            shapes = plan_samples(candidate, launcher.own_cache_bytes)
            costs = launcher.task_costs(candidate, shapes, _SAMPLE_MS)
            samples.append(Samples(candidate, shapes, costs))
            bar.advance(step)
        models = fit(samples, launcher.own_cache_bytes)
    save_costs(
        output,
        tables(models),
        grid=GRID,
        machine=asdict(machine),
        environment=environment(),
        records_path=records_path,
    )
    return Sources(records_path, output)
