"""The offline stage of a GPU's workload, each step kept so that it can be resumed."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.table import Table

from moonpoly.autotune.candidates import Candidate, space_of
from moonpoly.autotune.costs import save_costs
from moonpoly.autotune.environment import environment
from moonpoly.autotune.gpu.cost_model import GRID, LaunchCosts, fit, tables
from moonpoly.autotune.gpu.machine import GpuConstants
from moonpoly.autotune.gpu.measure import CONTEXTS, LaunchWorker
from moonpoly.autotune.gpu.program import Program, program_of_trace
from moonpoly.autotune.gpu.rank import Contender, rank, synthetic_shapes
from moonpoly.autotune.gpu.search import search
from moonpoly.autotune.gpu.workspace import GpuWorkspace
from moonpoly.autotune.interrupt import between_steps
from moonpoly.autotune.progress import progress
from moonpoly.autotune.rank import Ranking
from moonpoly.autotune.records import TuningRecord, save_records
from moonpoly.autotune.search import (
    FAILED_SECONDS,
    open_database,
    sampled_values,
    trace_json,
)
from moonpoly.autotune.sources import Sources
from moonpoly.error import TuneError
from moonpoly.schedules import configs
from moonpoly.target import Target

MAX_KERNELS = 48
# The decisions of a tile's schedule that are worth sampling: fast alone, and fast in crowds.
_WEIGHTS = ({"latency": 2.0, "wave": 1.0}, {"wave": 1.0, "deep": 1.0, "waves": 2.0})
_SAMPLES, _CUTS = 48, 24


@dataclass(frozen=True)
class Winner:
    """A program chosen for one of the uses of a tile, and the record of how it was found."""

    candidate: Candidate
    program: Program
    record: TuningRecord


def tune_gpu(
    target: Target,
    chosen: Sequence[Candidate],
    trials: int,
    work_dir: Path,
    output: Sources,
) -> tuple[tuple[TuningRecord, ...], tuple[float, ...]]:
    """Search, sample, fit and rank; write records and cost tables.

    Returns the kept records, the most useful first, and the loss of the set after each.

    Raises
    ------
    TuneError
        If no program of any tile could be built and run.
    """
    work = GpuWorkspace(work_dir)
    with progress() as bar, between_steps() as check:
        total = sum(
            min(trials, len(configs(candidate.tile, candidate.dtype))) for candidate in chosen
        )
        step = bar.add_task("searching", total=total)
        failures: list[str] = []

        def on_trial(failure: str) -> None:
            if failure:
                failures.append(failure)
            bar.advance(step)
            check()

        search(chosen, target, work, trials, on_trial)
    winners = [winner for candidate in chosen for winner in _winners(candidate, target, work)]
    if not winners:
        raise TuneError(f"no program could be built and run; the last error: {failures[-1:]}")
    constants = _sample(winners, work)
    with ThreadPoolExecutor() as threads:
        costs = list(threads.map(lambda winner: _fit(winner, work), winners))
    contenders = [
        Contender(w.program.config, c, w.program.config.blocks * constants.num_sms)
        for w, c in zip(winners, costs, strict=True)
    ]
    ranking = rank(contenders, synthetic_shapes(), MAX_KERNELS)
    records = tuple(winners[i].record for i in ranking.kept)
    output.records.parent.mkdir(parents=True, exist_ok=True)
    save_records(output.records, records)
    kept = {winners[i].program.name: costs[i] for i in ranking.kept}
    save_costs(
        output.costs,
        tables(kept),
        grid=GRID,
        machine=asdict(constants),
        environment=environment(),
        records_path=output.records,
    )
    _print_summary(records, ranking, len(winners), failures)
    return records, ranking.loss


def _winners(candidate: Candidate, target: Target, work: GpuWorkspace) -> list[Winner]:
    """Return the best program of each use, once each."""
    space = space_of(target)
    trials = [
        record
        for record in open_database(work.root, candidate).get_all_tuning_records()
        if float(record.run_secs[0]) < FAILED_SECONDS
    ]
    if not trials:
        return []
    logs = np.log([[float(s) for s in trial.run_secs] for trial in trials])
    best = {
        int(np.argmin(sum(w * logs[:, list(CONTEXTS).index(c)] for c, w in weights.items())))
        for weights in _WEIGHTS
    }
    found = []
    for index in sorted(best):
        trace = trace_json(trials[index].trace)
        program = program_of_trace(candidate, space.facts.isa, trace)
        us = [float(seconds) * 1e6 for seconds in trials[index].run_secs]
        record = TuningRecord(
            kernel=program.name,
            family=candidate.tile.family,
            um=candidate.tile.um,
            un=candidate.tile.un,
            trace=trace,
            decisions=dict(
                zip(space.decisions_of(candidate.tile.family), sampled_values(trace), strict=True)
            ),
            gflops={f"{name}_us": round(t, 2) for name, t in zip(CONTEXTS, us, strict=True)},
            trials=len(trials),
            environment=environment(),
        )
        found.append(Winner(candidate, program, record))
    return found


def _sample(winners: Sequence[Winner], work: GpuWorkspace) -> GpuConstants:
    """Sample the launches of every winner; return the constants of the GPU."""
    dtype = winners[0].candidate.dtype
    with progress() as bar, between_steps() as check, LaunchWorker(dtype) as worker:
        for winner in bar.track(winners, description="sampling launches"):
            check()
            if work.samples(winner.candidate, winner.program) is None:
                kernel, image = work.image(winner.candidate, winner.program)
                found = worker.samples(kernel, image, _SAMPLES, _CUTS)
                work.save_samples(winner.candidate, winner.program, found)
        small = min(
            (
                w
                for w in winners
                if w.program.config.loads != "strided" and not w.program.config.split
            ),
            key=lambda w: abs(w.program.config.um * w.program.config.un - 64 * 64),
            default=winners[0],
        )
        return worker.constants(*work.image(small.candidate, small.program))


def _fit(winner: Winner, work: GpuWorkspace) -> LaunchCosts:
    samples = work.samples(winner.candidate, winner.program)
    assert samples is not None, "sampling comes before fitting"
    return fit(winner.program.name, samples)


def _print_summary(
    kept: Sequence[TuningRecord], ranking: Ranking, winners: int, failures: Sequence[str]
) -> None:
    table = Table(title=f"{len(kept)} micro-kernels kept of {winners}, the most useful first")
    table.add_column("micro-kernel")
    for context in CONTEXTS:
        table.add_column(f"{context} µs", justify="right")
    table.add_column("cost of the set", justify="right")
    for record, loss in zip(kept, ranking.loss, strict=True):
        us = (str(record.gflops[f"{context}_us"]) for context in CONTEXTS)
        table.add_row(record.kernel, *us, f"{loss:.3f}")
    console = Console()
    console.print(table)
    if failures:
        console.print(f"{len(failures)} programs were not usable; the last: {failures[-1]}")
