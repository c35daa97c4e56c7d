"""The offline stage of a GPU's workload, each step kept so that it can be resumed."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict
from pathlib import Path

from rich.console import Console
from rich.table import Table

from moonpoly.autotune.candidates import Candidate
from moonpoly.autotune.costs import save_costs
from moonpoly.autotune.environment import environment
from moonpoly.autotune.gpu.contest import contest
from moonpoly.autotune.gpu.cost_model import GRID, LaunchCosts, fit, tables
from moonpoly.autotune.gpu.launched_costs import launched_costs
from moonpoly.autotune.gpu.machine import GpuConstants
from moonpoly.autotune.gpu.measure import CONTEXTS, LaunchWorker
from moonpoly.autotune.gpu.merged import build_merged
from moonpoly.autotune.gpu.rank import Contender, shortlist, synthetic_shapes
from moonpoly.autotune.gpu.search import search
from moonpoly.autotune.gpu.winners import Winner, image_of, winners_of
from moonpoly.autotune.gpu.workspace import GpuWorkspace
from moonpoly.autotune.interrupt import between_steps
from moonpoly.autotune.progress import progress
from moonpoly.autotune.records import TuningRecord, save_records
from moonpoly.autotune.sources import Sources
from moonpoly.error import TuneError
from moonpoly.schedules import configs
from moonpoly.target import Target
from moonpoly.workload import Workload

# As many as a set of kernels can hold.
MAX_CONTENDERS = 96
# Enough for a ranking; what is kept is fitted to more launches.
_SAMPLES, _CUTS = 24, 12


def tune_gpu(
    target: Target,
    chosen: Sequence[Candidate],
    trials: int,
    launches: int,
    work_dir: Path,
    output: Sources,
) -> tuple[tuple[TuningRecord, ...], tuple[float, ...]]:
    """Search, sample, fit, rank, record and refit; write records and cost tables.

    Returns the kept records, the most useful first, and the loss of the set after each: the mean
    time of its best launches on the recorded shapes over that of the best contender's.

    Parameters
    ----------
    launches
        Shapes to record launches on: to choose by, and as many others to fit costs to.

    Raises
    ------
    TuneError
        If no program of any tile could be built and run, or launches fail.
    """
    work = GpuWorkspace(work_dir)
    failures = _search(target, chosen, trials, work)
    winners = [winner for candidate in chosen for winner in winners_of(candidate, target, work)]
    if not winners:
        raise TuneError(f"no program could be built and run; the last error: {failures[-1:]}")
    constants = _sample(winners, work)
    with ThreadPoolExecutor() as threads:
        fitted = list(threads.map(lambda winner: _fit(winner, work), winners))
    known = {
        "kernels": tables({w.program.name: c for w, c in zip(winners, fitted, strict=True)}),
        "grid": GRID,
        "machine": asdict(constants),
    }
    workload = Workload("gemm", chosen[0].dtype, chosen[0].out_dtype)
    listed = [winners[index] for index in _shortlist(winners, fitted, constants)]
    kept, loss = contest(target, workload, listed, known, launches, work)
    merged = build_merged(target, [winner.program for winner in kept], work)
    costs = launched_costs(target, workload, merged, known, launches, work.root)
    names = {program.name for program in merged.programs}
    records = tuple(winner.record for winner in kept if winner.program.name in names)
    output.records.parent.mkdir(parents=True, exist_ok=True)
    save_records(output.records, records)
    save_costs(
        output.costs,
        costs["kernels"],
        grid=costs["grid"],
        machine=costs["machine"],
        environment=environment(),
        records_path=output.records,
    )
    loss = tuple(x for x, winner in zip(loss, kept, strict=True) if winner.program.name in names)
    _print_summary(records, loss, len(winners), failures)
    return records, loss


def _search(
    target: Target, chosen: Sequence[Candidate], trials: int, work: GpuWorkspace
) -> list[str]:
    """Search every tile, and sample winners meanwhile; return why programs were not usable."""
    failures: list[str] = []
    with progress() as bar, between_steps() as check:
        total = sum(min(trials, len(configs(each.tile, each.dtype))) for each in chosen)
        step = bar.add_task("searching", total=total)

        def on_trial(failure: str) -> None:
            if failure:
                failures.append(failure)
            bar.advance(step)
            check()

        def while_compiling(candidate: Candidate, worker: LaunchWorker) -> None:
            for winner in winners_of(candidate, target, work):
                _sample_one(winner, work, worker)
                check()

        search(chosen, target, work, trials, on_trial, while_compiling)
    return failures


def _sample(winners: Sequence[Winner], work: GpuWorkspace) -> GpuConstants:
    """Sample the launches of every winner that were not yet; return the constants of the GPU."""
    dtype = winners[0].candidate.dtype
    with progress() as bar, between_steps() as check, LaunchWorker(dtype) as worker:
        for winner in bar.track(winners, description="sampling launches"):
            check()
            _sample_one(winner, work, worker)
        constants = work.constants()
        if constants is None:
            small = min(
                (
                    w
                    for w in winners
                    if w.program.config.loads != "strided" and not w.program.config.split
                ),
                key=lambda w: abs(w.program.config.um * w.program.config.un - 64 * 64),
                default=winners[0],
            )
            constants = worker.constants(*image_of(small, work))
            work.save_constants(constants)
        return constants


def _sample_one(winner: Winner, work: GpuWorkspace, worker: LaunchWorker) -> None:
    """Sample the launches of a winner unless they are known."""
    if work.samples(winner.candidate, winner.program) is None:
        found = worker.samples(*image_of(winner, work), _SAMPLES, _CUTS)
        work.save_samples(winner.candidate, winner.program, found)


def _fit(winner: Winner, work: GpuWorkspace) -> LaunchCosts:
    samples = work.samples(winner.candidate, winner.program)
    assert samples is not None, "sampling comes before fitting"
    return fit(winner.program.name, samples)


def _shortlist(
    winners: Sequence[Winner], costs: Sequence[LaunchCosts], constants: GpuConstants
) -> tuple[int, ...]:
    contenders = [
        Contender(w.program.config, c, w.program.config.blocks * constants.num_sms)
        for w, c in zip(winners, costs, strict=True)
    ]
    return shortlist(contenders, synthetic_shapes(), MAX_CONTENDERS)


def _print_summary(
    kept: Sequence[TuningRecord], loss: Sequence[float], winners: int, failures: Sequence[str]
) -> None:
    table = Table(title=f"{len(kept)} micro-kernels kept of {winners}, the most useful first")
    table.add_column("micro-kernel")
    for context in CONTEXTS:
        table.add_column(f"{context} µs", justify="right")
    table.add_column("cost of the set", justify="right")
    for each, after in zip(kept, loss, strict=True):
        us = (str(each.gflops[f"{context}_us"]) for context in CONTEXTS)
        table.add_row(each.kernel, *us, f"{after:.3f}")
    console = Console()
    console.print(table)
    if failures:
        console.print(f"{len(failures)} programs were not usable; the last: {failures[-1]}")
