"""The best programs of each searched tile, one for each use."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from moonpoly.autotune.candidates import Candidate, space_of
from moonpoly.autotune.environment import environment
from moonpoly.autotune.gpu.compile import Kernel
from moonpoly.autotune.gpu.measure import CONTEXTS
from moonpoly.autotune.gpu.program import Program, program_of_trace
from moonpoly.autotune.gpu.workspace import GpuWorkspace
from moonpoly.autotune.records import TuningRecord
from moonpoly.autotune.search import FAILED_SECONDS, open_database, sampled_values, trace_json
from moonpoly.error import TuneError
from moonpoly.target import Target

# The decisions of a tile's schedule that are worth sampling: fast alone, and fast in crowds.
_WEIGHTS = ({"latency": 2.0, "wave": 1.0}, {"wave": 1.0, "deep": 1.0, "waves": 2.0})


@dataclass(frozen=True)
class Winner:
    """A program chosen for one of the uses of a tile, and the record of how it was found."""

    candidate: Candidate
    program: Program
    record: TuningRecord


def winners_of(candidate: Candidate, target: Target, work: GpuWorkspace) -> list[Winner]:
    """Return the best program of each use of a tile that was searched, once each."""
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


def image_of(winner: Winner, work: GpuWorkspace) -> tuple[Kernel, bytes]:
    """Return the kernel that a search compiled, and its machine code.

    Raises
    ------
    TuneError
        If the working folder lacks it.
    """
    found = work.image(winner.candidate.name, winner.program)
    if found is None:
        raise TuneError(f"{work.root} lacks {winner.program.name}; remove it and start again")
    return found
