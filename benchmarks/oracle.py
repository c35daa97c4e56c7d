"""``moonpoly bench oracle``: the chosen plan against the best of all plans, measured.

Beside it two ablations of the cost model, as in the paper: plans chosen by the number of waves
alone, as if all tasks cost the same, and by the task costs alone, as if waves did not count.
"""

from __future__ import annotations

import json as json_format
import math
import random
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from moonpoly import config
from moonpoly.autotune.launcher import pinned

from . import machine
from .operands import Operands
from .our_kernels import B_MODES, Kernels, load_kernels, prepare_b
from .report import check_writable, console, print_facts, quantile, table, track, write_json

_SHAPES = 120
_SMALLEST, _LARGEST = 1 << 21, 1 << 30  # operations
_EXTENTS = ((1, 4_096), (8, 4_096), (16, 8_192))  # of m, n, k
_MODES = ("constant", "row")
_FIRST_LOOK_S, _FIRST_LOOK_REPEATS = 200e-6, 3
# A plan whose first call takes this many times the best so far gets no second look.
_HOPELESS_RATIO = 2.0
_SAMPLE_S = 1e-3
# The finalists' rounds say which plan is the best; the others, how fast it and the chosen ones are.
_FINAL_ROUNDS, _VERDICT_ROUNDS = 9, 15
_FINALISTS = 12

Shape = tuple[int, int, int]


def held_out_shapes(count: int, seed: int) -> list[Shape]:
    """Distinct shapes without any power of two, which are what the kernels were ranked on."""
    rng = random.Random(seed)
    shapes: dict[Shape, None] = {}
    while len(shapes) < count:
        m, n, k = (round(low * (high / low) ** rng.random()) for low, high in _EXTENTS)
        powers = any(extent & (extent - 1) == 0 for extent in (m, n, k))
        if not powers and _SMALLEST <= 2 * m * n * k <= _LARGEST:
            shapes[m, n, k] = None
    return list(shapes)


def _time_s(call: Callable[[], object], num_calls: int) -> float:
    start = time.perf_counter()
    for _ in range(num_calls):
        call()
    return (time.perf_counter() - start) / num_calls


@dataclass(frozen=True)
class Sample:
    """The best plan of a shape, the chosen one, and what share of the best's speed each has."""

    shape: Shape
    b: str
    num_plans: int
    best_us: float
    best: str
    chosen_us: float
    chosen: str
    of_oracle: float
    waves_only: float
    task_cost_only: float

    def as_json(self) -> dict[str, Any]:
        """Plain values with the three shares of the best plan's speed."""
        m, n, k = self.shape
        return {
            "m": m,
            "n": n,
            "k": k,
            "b": self.b,
            "plans": self.num_plans,
            "best_us": round(self.best_us, 3),
            "best": self.best,
            "chosen_us": round(self.chosen_us, 3),
            "chosen": self.chosen,
            "of_oracle": round(self.of_oracle, 4),
            "waves_only": round(self.waves_only, 4),
            "task_cost_only": round(self.task_cost_only, 4),
        }


def _describe(plan_json: str) -> str:
    plan = json_format.loads(plan_json)
    regions = "+".join(
        f"{r['kernel'].rpartition('_')[2]}[{r['m1'] - r['m0']}x{r['n1'] - r['n0']}]"
        for r in plan["regions"]
    )
    return f"{plan['pattern']}/{plan['threads']} {regions}"


class _Oracle:
    """Measures every plan of a shape."""

    def __init__(self, kernels: Kernels, threads: int) -> None:
        self._kernels = kernels
        self._threads = threads
        self._operands = Operands()

    def sample(self, shape: Shape, b_name: str) -> Sample:
        import tvm_ffi

        from moonpoly import _ffi_api

        m, n, k = shape
        b_mode, handle = B_MODES[b_name], self._kernels.handle
        a, b, c = self._operands(m, n, k)
        tensors = (
            tvm_ffi.from_dlpack(a),
            prepare_b(self._kernels, b, b_mode),
            tvm_ffi.from_dlpack(c),
        )
        chosen = {
            model: _ffi_api.plan(handle, m, n, k, b_mode, self._threads, cost_model=model)
            for model in _ffi_api.COST_MODELS
        }
        every = _ffi_api.enumerate_plans(handle, m, n, k, b_mode, self._threads)
        plans = list(dict.fromkeys([*every, *chosen.values()]))

        def runner(plan: str) -> Callable[[], object]:
            return lambda: _ffi_api.run_plan(handle, plan, *tensors, b_mode)

        first_look: dict[str, float] = {}
        fastest = math.inf
        for plan in plans:
            _ffi_api.load_plan(handle, plan)  # parsed now, not within the first call
            first_look[plan] = self._first_look(runner(plan), _HOPELESS_RATIO * fastest)
            fastest = min(fastest, first_look[plan])
        finalists = dict.fromkeys(sorted(plans, key=first_look.__getitem__)[:_FINALISTS])
        finalists |= dict.fromkeys(chosen.values())
        final = _interleaved({plan: runner(plan) for plan in finalists}, first_look, _FINAL_ROUNDS)
        best = min(finalists, key=lambda plan: statistics.median(final[plan]))
        # The least of many noisy times is too small. What it takes is asked again.
        judged = dict.fromkeys((best, *chosen.values()))
        verdict = _interleaved({plan: runner(plan) for plan in judged}, first_look, _VERDICT_ROUNDS)
        share = {model: share_of(verdict[best], verdict[plan]) for model, plan in chosen.items()}
        return Sample(
            shape=shape,
            b=b_name,
            num_plans=len(plans),
            best_us=statistics.median(verdict[best]) * 1e6,
            best=_describe(best),
            chosen_us=statistics.median(verdict[chosen["full"]]) * 1e6,
            chosen=_describe(chosen["full"]),
            of_oracle=share["full"],
            waves_only=share["waves"],
            task_cost_only=share["task"],
        )

    @staticmethod
    def _first_look(call: Callable[[], object], hopeless_s: float) -> float:
        once = min(_time_s(call, 1) for _ in range(2))
        if once > hopeless_s:
            return once
        num_calls = max(1, round(_FIRST_LOOK_S / once))
        return min(_time_s(call, num_calls) for _ in range(_FIRST_LOOK_REPEATS))


def share_of(best_s: Sequence[float], plan_s: Sequence[float]) -> float:
    """Return what share of the best plan's speed a plan has: the median over rounds."""
    return statistics.median(best / plan for best, plan in zip(best_s, plan_s, strict=True))


def _interleaved(
    calls: Mapping[str, Callable[[], object]], first_look: Mapping[str, float], rounds: int
) -> dict[str, list[float]]:
    """Seconds of each plan's call in each of the rounds, in which all take turns."""
    samples: dict[str, list[float]] = {plan: [] for plan in calls}
    order = list(calls)
    for _ in range(rounds):
        for plan in order:
            num_calls = max(1, round(_SAMPLE_S / first_look[plan]))
            samples[plan].append(_time_s(calls[plan], num_calls))
        order.append(order.pop(0))
    return samples


def main(
    *,
    sample: int | None = None,
    seed: int = 0,
    threads: int | None = None,
    json: Path | None = None,
) -> dict[str, Any]:
    """Measure all plans of held-out shapes, constant and row-major B in turn.

    Every plan gets a first look. The fastest, the chosen one and the two ablations' choices are
    measured again in interleaved rounds, which say what the best plan is. In further rounds it is
    measured beside the chosen ones; a plan's share is the median of its shares in these.

    Returns
    -------
    dict
        ``of_oracle``, ``waves_only``, ``task_cost_only``: the mean over the shapes of the best
        plan's time over the time of the plan so chosen. A single one may exceed 1 by noise.
    """
    check_writable(json)
    threads = threads or config.num_threads()
    out = console()
    facts = machine.facts(threads)
    print_facts("machine", facts, out)
    kernels = load_kernels(threads)
    print_facts("moonpoly", kernels.describe(), out)
    oracle = _Oracle(kernels, threads)
    shapes = held_out_shapes(sample or _SHAPES, seed)
    with pinned():
        samples = [
            oracle.sample(shape, _MODES[index % len(_MODES)])
            for index, shape in enumerate(track(shapes, "shapes", out))
        ]
    rows = [s.as_json() for s in samples]
    keys = ("of_oracle", "waves_only", "task_cost_only")
    summary: dict[str, Any] = {
        key: round(statistics.fmean(row[key] for row in rows), 4) for key in keys
    }
    summary["shapes"] = len(rows)
    columns = ["share of the best plan's speed", "mean", "median", "worst 10 %", "worst"]
    out.print(
        table(
            f"{len(rows)} held-out shapes, {statistics.fmean(s.num_plans for s in samples):.0f} "
            "plans each on average",
            columns,
            [
                (key, summary[key], quantile(values, 0.5), quantile(values, 0.1), min(values))
                for key in keys
                for values in [[row[key] for row in rows]]
            ],
        )
    )
    worst = sorted(rows, key=lambda row: row["of_oracle"])[:10]
    out.print(
        table(
            "worst choices",
            ["m x n x k", "B", "chosen", "best", "chosen µs", "best µs", "share"],
            [
                (
                    f"{row['m']} x {row['n']} x {row['k']}",
                    row["b"],
                    row["chosen"],
                    row["best"],
                    row["chosen_us"],
                    row["best_us"],
                    row["of_oracle"],
                )
                for row in worst
            ],
            text_columns=4,
        )
    )
    out.print("[bold]" + ", ".join(f"{key} {summary[key]:.3f}" for key in keys) + "[/]")
    write_json(json, summary, rows, machine=facts)
    return summary
