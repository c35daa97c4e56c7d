"""Refit the task costs of the kept micro-kernels on this machine, without a new search."""

from __future__ import annotations

from moonpoly.autotune.cost_model import fit
from moonpoly.autotune.costs import save_costs
from moonpoly.autotune.environment import environment
from moonpoly.autotune.export import candidates_of, rebuild
from moonpoly.autotune.machine import measure_machine
from moonpoly.autotune.progress import progress
from moonpoly.autotune.records import load_records
from moonpoly.autotune.refine import load_kernels
from moonpoly.autotune.sample import plan_samples, task_us
from moonpoly.autotune.sources import Sources, current_sources, own_sources
from moonpoly.target import Target
from moonpoly.workload import Workload

# Enough for the trees to place every cache; 40 kernels take about a minute and a half.
_SAMPLES = 400
_SAMPLE_MS = 1.5
_SEED = 23


def calibrate(target: Target, workload: Workload) -> Sources:
    """Measure and fit the task costs of this machine; artifacts are made with them from then on.

    Takes one to two minutes on one core, which should be otherwise idle. The records stay as they
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
    models = []
    with progress() as bar:
        step = bar.add_task(f"calibrating {target.name} {workload.key}", total=len(kernels) + 1)
        functions = {c.name: rebuild(c, r) for c, r in zip(kernels, records, strict=True)}
        module = load_kernels(functions, target)
        outer = [c for c in kernels if c.tile.family == "outer"]
        machine = measure_machine(target, module, min(outer, key=lambda c: c.tile.um * c.tile.un))
        bar.advance(step)
        for candidate in kernels:
            shapes = list(plan_samples(candidate, _SAMPLES, _SEED))
            costs = [task_us(module, candidate, shape, _SAMPLE_MS) for shape in shapes]
            models.append(fit(candidate, shapes, costs))
            bar.advance(step)
    output = own_sources(target, workload).costs
    save_costs(output, models, machine, environment(), records_path)
    return Sources(records_path, output)
