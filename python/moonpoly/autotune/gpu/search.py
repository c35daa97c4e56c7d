"""Search tile programs with MetaSchedule, keeping every trial in its database.

MetaSchedule draws the schedules of a tile; programs are compiled by as many processes as there are
cores while one process measures. The GPU waits for compilers most of the time, in which tiles whose
trials are measured can be looked at more closely. A search that was interrupted goes on: what the
database holds is not measured again.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass

from tvm.support.popen_pool import PopenPoolExecutor

from moonpoly.autotune.candidates import Candidate, space_of
from moonpoly.autotune.gpu.compile import Kernel, compile_programs
from moonpoly.autotune.gpu.measure import LaunchWorker
from moonpoly.autotune.gpu.program import Program, program_of_schedule, tile_module
from moonpoly.autotune.gpu.workspace import GpuWorkspace
from moonpoly.autotune.interrupt import ignore_in_worker
from moonpoly.autotune.metaschedule import meta_schedule, without_intrinsics
from moonpoly.autotune.search import FAILED_SECONDS, open_database, sampled_values, trace_json
from moonpoly.error import TuneError
from moonpoly.schedules import configs
from moonpoly.target import Target

_COMPILE_TIMEOUT_S = 120.0
# Draws for each program of a tile's space: with so many hardly one is missed.
_DRAWS_PER_PROGRAM = 8


@dataclass(frozen=True)
class Drawn:
    """A schedule that MetaSchedule drew, and the program that it stands for."""

    candidate: Candidate
    program: Program
    measured: meta_schedule.MeasureCandidate
    database: meta_schedule.database.JSONDatabase


def compile_pool() -> PopenPoolExecutor:
    """Return processes that compile, one for each core."""
    return PopenPoolExecutor(
        max_workers=os.cpu_count() or 1,
        timeout=_COMPILE_TIMEOUT_S,
        initializer=ignore_in_worker,
    )


def compiled(program: Program, target: Target) -> tuple[Kernel, bytes]:
    """Compile one program; run in a process of the pool."""
    (kernel,), image = compile_programs([program], target.tvm_target())
    return kernel, image


def search(
    candidates: Sequence[Candidate],
    target: Target,
    work: GpuWorkspace,
    trials: int,
    on_trial: Callable[[str], None],
    while_compiling: Callable[[Candidate, LaunchWorker], None],
) -> None:
    """Measure up to ``trials`` programs of each candidate that the database does not know yet.

    Parameters
    ----------
    on_trial
        Called with why a program was not usable, or "".
    while_compiling
        Called with a candidate of whose trials the last was measured, while the next one's are
        being compiled. Not called for candidates that are measured when nothing is left to compile.
    """
    pool = compile_pool()
    waiting: deque[tuple[Drawn, Future]] = deque()
    searched: deque[Candidate] = deque()

    def measure_next(worker: LaunchWorker) -> None:
        drawn, future = waiting.popleft()
        _measure(drawn, future, target, work, worker, on_trial)
        if not waiting or waiting[0][0].candidate is not drawn.candidate:
            searched.append(drawn.candidate)

    with LaunchWorker(candidates[0].dtype) as worker:
        for candidate in candidates:
            for drawn in draw(candidate, target, work, trials):
                waiting.append((drawn, pool.submit(compiled, drawn.program, target)))
            # What is compiled by now is measured while the rest compiles.
            while waiting and waiting[0][1].done():
                measure_next(worker)
        while waiting:
            while searched and not waiting[0][1].done():
                while_compiling(searched.popleft(), worker)
            measure_next(worker)


def draw(candidate: Candidate, target: Target, work: GpuWorkspace, trials: int) -> Iterable[Drawn]:
    """Return schedules of a candidate that were not measured yet, at most ``trials`` in all."""
    space = space_of(target)
    database = open_database(work.root, candidate)
    module = tile_module(candidate)
    known = {sampled_values(trace_json(r.trace)) for r in database.get_all_tuning_records()}
    programs = len(configs(candidate.tile, candidate.dtype))
    draws = _DRAWS_PER_PROGRAM * programs
    wanted = min(trials, programs) - len(known)
    if wanted <= 0:
        return []
    with without_intrinsics():
        context = meta_schedule.TuneContext(
            module,
            target=target.tvm_target(),
            space_generator=meta_schedule.space_generator.ScheduleFn(
                space.schedules[candidate.tile.family], [], [], {}
            ),
            search_strategy="replay-func",
            task_name=candidate.name,
            rand_state=1 + len(known),
            num_threads=1,
        )
    context.pre_tuning(max_trials=draws, num_trials_per_iter=draws)
    found = []
    for one in context.generate_measure_candidates() or []:
        key = sampled_values(trace_json(one.sch.trace))
        if key not in known:
            known.add(key)
            program = program_of_schedule(candidate, space.facts.isa, one.sch)
            found.append(Drawn(candidate, program, one, database))
    context.post_tuning()
    return found[:wanted]


def _measure(
    drawn: Drawn,
    future: Future,
    target: Target,
    work: GpuWorkspace,
    worker: LaunchWorker,
    on_trial: Callable[[str], None],
) -> None:
    """Measure a compiled program and commit the result, or that there is none."""
    try:
        kernel, image = future.result()
        work.save_image(drawn.candidate.name, kernel, image)
        if kernel.spilled_bytes:
            raise TuneError(f"{drawn.program.name} spills {kernel.spilled_bytes} bytes")
        seconds = [us * 1e-6 for us in worker.context_us(kernel, image)]
        failure = ""
    except (TuneError, TimeoutError, ChildProcessError, RuntimeError) as err:
        seconds, failure = [FAILED_SECONDS], str(err)
    drawn.database.commit_tuning_record(
        meta_schedule.database.TuningRecord(
            drawn.measured.sch.trace,
            drawn.database.commit_workload(tile_module(drawn.candidate)),
            seconds,
            target.tvm_target(),
            drawn.measured.args_info,
        )
    )
    on_trial(failure)
