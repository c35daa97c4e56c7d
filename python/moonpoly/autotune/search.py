"""Search the schedules of one candidate with MetaSchedule, keeping every trial in a database.

A trial is committed as soon as it is measured. A search that was interrupted goes on from there:
what the database holds counts, and no decision is measured twice.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import tvm
import tvm_ffi
from tvm import s_tir, tirx

from moonpoly.autotune.candidates import Candidate, space_of
from moonpoly.autotune.generate import tuning_module
from moonpoly.autotune.measure import TrialWorker, tuning_shape
from moonpoly.autotune.metaschedule import meta_schedule, without_intrinsics
from moonpoly.error import TuneError
from moonpoly.target import Target

# Recorded for a schedule that can't be built or run: known, and never chosen.
FAILED_SECONDS = 1e9

# Samples drawn for each trial wanted: the space is small, most repeats are dropped unmeasured.
_DRAWS_PER_TRIAL = 6


def open_database(work_dir: Path, candidate: Candidate) -> meta_schedule.database.JSONDatabase:
    """Open the database of one candidate, made if missing.

    A line that an interruption cut short is dropped.
    """
    folder = work_dir / candidate.name
    folder.mkdir(parents=True, exist_ok=True)
    records = folder / "trials.json"
    if records.exists():
        _drop_damaged_end(records)
    return meta_schedule.database.JSONDatabase(
        str(folder / "workload.json"), str(records), module_equality="structural"
    )


def search_candidate(
    candidate: Candidate,
    target: Target,
    database: meta_schedule.database.JSONDatabase,
    trials: int,
    worker: TrialWorker,
    on_trial: Callable[[], None],
) -> None:
    """Measure schedules of ``candidate`` until the database holds ``trials`` of them.

    Fewer are measured where the space has fewer. ``on_trial`` is called after each.

    Raises
    ------
    TuneError
        If not one schedule could be built and run.
    """
    module = tuning_module(candidate, *tuning_shape(candidate))
    workload = database.commit_workload(module)
    known = {sampled_values(trace_json(r.trace)) for r in database.get_all_tuning_records()}
    batch = _draw(candidate, target, module, known, trials)
    tvm_target = target.tvm_target()
    last_error = "nothing was measured"
    for drawn in batch:
        try:
            seconds = worker.seconds(candidate, drawn.sch.mod, tvm_target)
        except TuneError as err:
            seconds, last_error = [FAILED_SECONDS], str(err)
        database.commit_tuning_record(
            meta_schedule.database.TuningRecord(
                drawn.sch.trace, workload, seconds, tvm_target, drawn.args_info
            )
        )
        on_trial()
    if not best_trials(database, 1):
        raise TuneError(
            f"no schedule of {candidate.name} could be built and run; the last error: {last_error}"
        )


def best_trials(
    database: meta_schedule.database.JSONDatabase, count: int
) -> list[meta_schedule.database.TuningRecord]:
    """Return the ``count`` fastest trials, the fastest first."""
    records = sorted(
        (r for r in database.get_all_tuning_records() if float(r.run_secs[0]) < FAILED_SECONDS),
        key=lambda r: sum(float(s) for s in r.run_secs),
    )
    return records[:count]


def trace_json(trace: s_tir.schedule.Trace) -> Any:
    """Return a trace in its JSON form, in Python's own types."""
    return _plain(trace.as_json(remove_postproc=True))


def sampled_values(trace: Any) -> tuple[int, ...]:
    """Return what a trace (in its JSON form) sampled, in the order of its instructions."""
    instructions, decisions = trace
    # An instruction is [kind, inputs, attributes, outputs]; a decision is an index into the
    # candidates, the first attribute of the sampling instruction.
    return tuple(int(instructions[at][2][0][index]) for at, index in decisions)


def _draw(
    candidate: Candidate,
    target: Target,
    module: tvm.IRModule,
    known: set[tuple[int, ...]],
    trials: int,
) -> list[meta_schedule.MeasureCandidate]:
    """Draw schedules that were not measured yet, up to ``trials`` with those that were."""
    wanted = trials - len(known)
    if wanted <= 0:
        return []
    schedule = space_of(target).schedules[candidate.tile.family]
    with without_intrinsics():
        context = meta_schedule.TuneContext(
            module,
            target=target.tvm_target(),
            space_generator=meta_schedule.space_generator.ScheduleFn(schedule, [], [], {}),
            search_strategy="replay-func",
            task_name=candidate.name,
            # The seed moves on with what is known, so that a resumed search draws anew.
            rand_state=1 + len(known),
            num_threads=1,
        )
    draws = trials * _DRAWS_PER_TRIAL
    context.pre_tuning(max_trials=draws, num_trials_per_iter=draws)
    drawn: list[meta_schedule.MeasureCandidate] = []
    for one in context.generate_measure_candidates() or []:
        key = sampled_values(trace_json(one.sch.trace))
        if key not in known:
            known.add(key)
            drawn.append(one)
    context.post_tuning()
    return drawn[:wanted]


def _plain(value: Any) -> Any:
    if isinstance(value, (tirx.IntImm, tirx.FloatImm)):
        return value.value
    if isinstance(value, (list, tuple, tvm_ffi.Array)):
        return [_plain(item) for item in value]
    if isinstance(value, str):
        return str(value)
    return value


def _drop_damaged_end(path: Path) -> None:
    lines = path.read_text(encoding="utf-8").splitlines(keepends=True)
    while lines:
        try:
            json.loads(lines[-1])
            break
        except ValueError:
            lines.pop()
    path.write_text("".join(lines), encoding="utf-8")
