"""The whole offline stage of one target and workload, each step kept so that it can be resumed."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from rich.console import Console
from rich.table import Table

from moonpoly.autotune.candidates import Candidate, candidates, space_of
from moonpoly.autotune.cost_model import GRID, CostModel, Samples, fit, tables
from moonpoly.autotune.costs import save_costs
from moonpoly.autotune.environment import environment
from moonpoly.autotune.generate import scheduled_kernel
from moonpoly.autotune.gpu.launched_costs import num_launches
from moonpoly.autotune.gpu.tune import tune_gpu
from moonpoly.autotune.interrupt import between_steps
from moonpoly.autotune.launcher import Launcher, own_cache_bytes, pinned
from moonpoly.autotune.machine import MachineConstants, measure_machine
from moonpoly.autotune.measure import TrialWorker
from moonpoly.autotune.progress import progress
from moonpoly.autotune.rank import Ranking, rank, synthetic_shapes
from moonpoly.autotune.records import TuningRecord, save_records
from moonpoly.autotune.refine import refine
from moonpoly.autotune.sample import TaskShape, plan_samples
from moonpoly.autotune.search import (
    best_trials,
    open_database,
    sampled_values,
    search_candidate,
    trace_json,
)
from moonpoly.autotune.sources import Sources, own_sources
from moonpoly.autotune.workspace import Workspace
from moonpoly.config import cache_dir
from moonpoly.target import Target
from moonpoly.workload import Workload

# Of a space of some sixty schedules for each tile.
TRIALS = 40
# On a GPU of up to thirty, each compiled by nvcc for seconds: a whole run is to take ten minutes.
GPU_TRIALS = 3
MAX_KERNELS = 40
_REFINED = 5
_SAMPLE_MS = 2.0


@dataclass(frozen=True)
class TuneResult:
    """What a tuning run found.

    Parameters
    ----------
    sources
        The files that were written.
    records
        The kept micro-kernels, the most useful first.
    loss
        After each of them, the mean cost of the best plans on the synthetic shapes over that with
        every candidate; on a GPU the mean time of the best launches on the recorded shapes.
    """

    sources: Sources
    records: tuple[TuningRecord, ...]
    loss: tuple[float, ...]


def tune(
    target: Target,
    workload: Workload,
    *,
    trials: int | None = None,
    launches: int | None = None,
    tiles: Sequence[Candidate] | None = None,
    work_dir: Path | None = None,
    output: Sources | None = None,
) -> TuneResult:
    """Search, rank and fit the micro-kernels of a target without knowing any shape.

    An interrupted run goes on where it stopped when it is called again with the same ``work_dir``.

    Parameters
    ----------
    target
        The machine to tune for: this one must be able to run its code.
    workload
        Operator and dtype.
    trials
        Schedules measured for each tile; 40, or 4 on a GPU, if None.
    launches
        For a GPU: shapes to record launches on, which kernels are chosen and costs fitted by; 120
        if None.
    tiles
        The candidates; the target's whole search space if None.
    work_dir
        Where the steps are kept; a folder in the cache if None.
    output
        The files to write; the user's own, which ``export`` and ``load_artifact`` then use, if
        None.

    Raises
    ------
    TargetError
        If this machine can't run the target's code.
    TuneError
        If a tile has no schedule that builds and runs, or ``launches`` is given for a processor.
    StorageError
        If a file can't be written.
    """
    launches = num_launches(target, launches)
    target.require_host()
    chosen = candidates(target, workload) if tiles is None else tuple(tiles)
    if work_dir is None:
        work_dir = cache_dir() / "tune" / target.name / workload.key
    sources = output or own_sources(target, workload)
    trials = trials or (GPU_TRIALS if target.is_gpu else TRIALS)
    if target.is_gpu:
        records, loss = tune_gpu(target, chosen, trials, launches, work_dir, sources)
        return TuneResult(sources, records, loss)
    work = Workspace(work_dir)
    search(chosen, target, work, trials)
    choose(chosen, target, work)
    sample(chosen, target, work)
    return finish(chosen, target, work, sources)


def search(
    chosen: Sequence[Candidate], target: Target, work: Workspace, trials: int = TRIALS
) -> None:
    """Search every candidate that has fewer than ``trials`` trials."""
    with progress() as bar, TrialWorker() as worker, between_steps() as check:

        def on_trial() -> None:
            bar.advance(step)
            check()

        step = bar.add_task("searching", total=len(chosen) * trials)
        for number, candidate in enumerate(chosen):
            bar.update(step, description=f"searching {candidate.name}")
            database = open_database(work.root, candidate)
            bar.update(step, completed=number * trials + min(len(database), trials))
            if work.winner(candidate) is None:
                search_candidate(candidate, target, database, trials, worker, on_trial)


def choose(chosen: Sequence[Candidate], target: Target, work: Workspace) -> None:
    """Measure the best trials of every candidate again and keep one."""
    with progress() as bar, between_steps() as check:
        for candidate in bar.track(chosen, description="measuring the best again"):
            check()
            if work.winner(candidate) is None:
                work.save_winner(candidate, _best(candidate, target, work))


def sample(chosen: Sequence[Candidate], target: Target, work: Workspace) -> None:
    """Sample the task costs of every candidate's chosen schedule."""
    with progress() as bar, between_steps() as check:
        for candidate in bar.track(chosen, description="sampling task costs"):
            check()
            if work.samples(candidate) is None:
                record = work.winner(candidate)
                assert record is not None, "choose() comes before sample()"
                shapes, costs = sample_costs(candidate, record, target)
                work.save_samples(candidate, shapes, costs)


def finish(
    chosen: Sequence[Candidate], target: Target, work: Workspace, output: Sources
) -> TuneResult:
    """Fit the cost models, keep the best set of kernels, write records and tables."""
    models = _fit_all(chosen, work)
    records = [work.winner(candidate) for candidate in chosen]
    machine = _measure_machine(chosen, records, target)
    ranking = rank(
        chosen,
        lambda index, shapes: models[index].task_us(shapes),
        synthetic_shapes(),
        MAX_KERNELS,
        machine.pack_us_per_kb,
    )
    kept = tuple(record for i in ranking.kept if (record := records[i]) is not None)
    output.records.parent.mkdir(parents=True, exist_ok=True)
    save_records(output.records, kept)
    save_costs(
        output.costs,
        tables([models[i] for i in ranking.kept]),
        grid=GRID,
        machine=asdict(machine),
        environment=environment(),
        records_path=output.records,
    )
    _print_summary(kept, ranking)
    return TuneResult(output, kept, ranking.loss)


def sample_costs(
    candidate: Candidate, record: TuningRecord, target: Target
) -> tuple[list[TaskShape], list[float]]:
    """Return the sampled shapes of a kernel and their task costs in µs."""
    launcher = Launcher({candidate: scheduled_kernel(candidate, record.trace)}, target)
    shapes = plan_samples(candidate, launcher.own_cache_bytes)
    with pinned():
        return shapes, launcher.task_costs(candidate, shapes, _SAMPLE_MS)


def _best(candidate: Candidate, target: Target, work: Workspace) -> TuningRecord:
    database = open_database(work.root, candidate)
    traces = [trace_json(trial.trace) for trial in best_trials(database, _REFINED)]
    index, gflops = refine(candidate, [scheduled_kernel(candidate, t) for t in traces], target)
    names = space_of(target).decisions
    return TuningRecord(
        kernel=candidate.name,
        family=candidate.tile.family,
        um=candidate.tile.um,
        un=candidate.tile.un,
        trace=traces[index],
        decisions=dict(zip(names, sampled_values(traces[index]), strict=True)),
        gflops=gflops,
        trials=len(database),
        environment=environment(),
    )


def _fit_all(chosen: Iterable[Candidate], work: Workspace) -> list[CostModel]:
    sampled = []
    for candidate in chosen:
        shapes_and_costs = work.samples(candidate)
        assert shapes_and_costs is not None, "sample() comes before finish()"
        sampled.append(Samples(candidate, *shapes_and_costs))
    return fit(sampled, own_cache_bytes())


def _measure_machine(
    chosen: Sequence[Candidate], records: Sequence[TuningRecord | None], target: Target
) -> MachineConstants:
    pairs = [(c, r) for c, r in zip(chosen, records, strict=True) if r is not None]
    outer = [pair for pair in pairs if pair[0].tile.family == "outer"]
    smallest, record = min(outer or pairs, key=lambda pair: pair[0].tile.um * pair[0].tile.un)
    launcher = Launcher({smallest: scheduled_kernel(smallest, record.trace)}, target)
    with pinned():
        return measure_machine(launcher, smallest.lanes)


def _print_summary(kept: Sequence[TuningRecord], ranking: Ranking) -> None:
    contexts = sorted({context for record in kept for context in record.gflops})
    table = Table(title=f"{len(kept)} micro-kernels kept, the most useful first")
    table.add_column("micro-kernel")
    table.add_column("schedule")
    for context in contexts:
        table.add_column(f"{context} GFLOP/s", justify="right")
    table.add_column("cost of the set", justify="right")
    for record, loss in zip(kept, ranking.loss, strict=True):
        table.add_row(
            record.kernel,
            " ".join(str(value) for value in record.decisions.values()),
            *(str(record.gflops.get(context, "")) for context in contexts),
            f"{loss:.3f}",
        )
    Console().print(table)
