"""``moonpoly bench oracle --target``: the chosen plan against the best of all plans on a GPU."""

from __future__ import annotations

import json as json_format
import random
import statistics
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from rich.console import Console

from ..report import check_writable, console, print_facts, quantile, table, track, write_json
from ..shape_lists import Problem
from . import device
from .contenders import Ours, Stage, access_of
from .contest import Protocol, describe, time_graphs
from .operands import OperandSet, Pool

SHAPES = 200
_SMALLEST, _LARGEST = 1 << 22, 1 << 37  # operations
_EXTENTS = ((1, 16_384), (8, 16_384), (16, 16_384))  # of m, n, k
# Plans that are predicted so many times slower than the chosen one are not run.
_HOPELESS_RATIO = 2.0
_FINALISTS = 6
_FIRST_ROUNDS = 2
_FIRST_CALLS, _FINAL_CALLS = 10, 20
_FINAL = Protocol(sample_us=250.0, rounds=7)
ABLATIONS = {"waves_only": "waves", "task_cost_only": "task"}


def held_out_shapes(count: int, seed: int, aligned: int = 8) -> list[Problem]:
    """Distinct shapes without any power of two; most with ``aligned`` dividing n and k."""
    rng = random.Random(seed)
    shapes: dict[tuple[int, int, int], None] = {}
    while len(shapes) < count:
        m, n, k = (round(low * (high / low) ** rng.random()) for low, high in _EXTENTS)
        if len(shapes) % 4 != 3:
            n, k = -(-n // aligned) * aligned, -(-k // aligned) * aligned
        powers = any(extent & (extent - 1) == 0 for extent in (m, n, k))
        if not powers and _SMALLEST <= 2 * m * n * k <= _LARGEST:
            shapes[m, n, k] = None
    return [Problem("held-out", *shape) for shape in shapes]


class Oracle:
    """Measures every plan of a shape, launches overlapping or not."""

    def __init__(self, kernels: device.Kernels, stage: Stage, pool: Pool, *, overlap: bool) -> None:
        self._kernels = kernels.handle
        self._types = kernels.types
        self._stage = stage
        self._pool = pool
        self._ours = Ours(kernels.handle, stage, kernels.types)
        self._overlap = overlap

    def sample(self, problem: Problem) -> dict[str, Any]:
        """Return the best, the chosen and the ablations' plans with their µs; all first looks."""
        sets = self._pool.sets(problem, cold=False)
        chosen = {
            name: self._ours.plan(problem, overlap=self._overlap, cost_model=model)
            for name, model in {"full": "full", **ABLATIONS}.items()
        }
        plans = self._plans(problem, chosen.values())
        first_calls = _calls(predicted_us(chosen["full"]), _FIRST_CALLS)
        looks = self._first_look(plans, sets[0], first_calls)
        # What the ablations predict is no time: only looks size the samples.
        finalists = dict.fromkeys(sorted(plans, key=looks.__getitem__)[:_FINALISTS])
        finalists |= {chosen["full"]: None}
        calls = _calls(min(looks.values()), _FINAL_CALLS)
        graphs = {
            plan: self._ours.capture(plan, sets, calls)
            for plan in finalists | dict.fromkeys(chosen.values())
        }
        # The least of several noisy times flatters: the fastest is picked in some rounds, and
        # compared in others.
        picked = self._time({plan: graphs[plan] for plan in finalists}, calls, looks)
        best = min(picked, key=picked.__getitem__)
        compared = dict.fromkeys([best, *chosen.values()])
        final = self._time({plan: graphs[plan] for plan in compared}, calls, looks)
        return {
            "m": problem.m,
            "n": problem.n,
            "k": problem.k,
            "plans": len(plans),
            "best": describe(best),
            "best_us": round(final[best], 3),
            "chosen": describe(chosen["full"]),
            "chosen_us": round(final[chosen["full"]], 3),
            "predicted_us": round(predicted_us(chosen["full"]), 3),
            "of_oracle": round(final[best] / final[chosen["full"]], 4),
            **{name: round(final[best] / final[chosen[name]], 4) for name in ABLATIONS},
            "looks": [
                [describe(plan), round(predicted_us(plan), 2), round(us, 2)]
                for plan, us in looks.items()
            ],
        }

    def _time(
        self, graphs: Mapping[str, Any], calls: int, looks: Mapping[str, float]
    ) -> dict[str, float]:
        return time_graphs(self._stage, graphs, calls, looks, _FINAL)

    def _first_look(self, plans: list[str], operands: OperandSet, calls: int) -> dict[str, float]:
        """Median µs of every plan, launched without a graph: making one takes longer."""
        import numpy as np
        import tvm_ffi

        from moonpoly import _ffi_api

        tensors = tuple(map(tvm_ffi.from_dlpack, (operands.a, operands.b.t(), operands.c)))
        us = np.from_dlpack(
            _ffi_api.gpu_time_plans(
                self._kernels, plans, tensors, calls, _FIRST_ROUNDS, self._stage.stream
            )
        ).reshape(_FIRST_ROUNDS, len(plans))
        return dict(zip(plans, np.median(us, axis=0).tolist(), strict=True))

    def _plans(self, problem: Problem, chosen: Any) -> list[str]:
        from moonpoly import _ffi_api

        every = _ffi_api.gpu_enumerate_plans(
            self._kernels,
            problem.m,
            problem.n,
            problem.k,
            access=access_of(problem, self._types),
            overlap=self._overlap,
        )
        limit = _HOPELESS_RATIO * min(map(predicted_us, every))
        return list(dict.fromkeys([*(p for p in every if predicted_us(p) <= limit), *chosen]))


def _calls(us: float, most: int) -> int:
    """Return the calls that fill a sample, of so many µs each."""
    return max(3, min(most, round(_FINAL.sample_us / max(us, 1.0))))


def predicted_us(plan: str) -> float:
    """The µs that the selector gives a plan."""
    return float(json_format.loads(plan)["predicted_us"])


def summarise(rows: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Mean shares of the best plan's speed."""
    if not rows:
        return {"shapes": 0}
    keys = ("of_oracle", *ABLATIONS)
    means: dict[str, Any] = {
        key: round(statistics.fmean(row[key] for row in rows), 4) for key in keys
    }
    return means | {"shapes": len(rows)}


def show(rows: Sequence[Mapping[str, Any]], out: Console) -> None:
    """Print the shares and the worst choices."""
    keys = ("of_oracle", *ABLATIONS)
    out.print(
        table(
            f"{len(rows)} held-out shapes, "
            f"{statistics.fmean(row['plans'] for row in rows):.0f} plans each on average",
            ["share of the best plan's speed", "mean", "median", "worst 10 %", "worst"],
            [
                (key, statistics.fmean(v), quantile(v, 0.5), quantile(v, 0.1), min(v))
                for key in keys
                for v in [[row[key] for row in rows]]
            ],
        )
    )
    worst = sorted(rows, key=lambda row: float(row["of_oracle"]))[:10]
    columns = ("chosen", "best", "chosen_us", "predicted_us", "best_us", "of_oracle")
    out.print(
        table(
            "worst choices",
            ["m x n x k", *columns],
            [
                (f"{row['m']} x {row['n']} x {row['k']}", *(row[c] for c in columns))
                for row in worst
            ],
            text_columns=3,
        )
    )


def main(
    *,
    target: str,
    dtype: str = "float16",
    out_dtype: str = "",
    sample: int | None = None,
    seed: int = 0,
    json: Path | None = None,
    kernels: device.Kernels | None = None,
) -> dict[str, Any]:
    """Measure the plans of held-out shapes, launches overlapping and not in turn.

    Returns
    -------
    dict
        ``of_oracle``, ``waves_only``, ``task_cost_only``: the mean over the shapes of the best
        plan's time over the time of the plan so chosen.
    """
    check_writable(json)
    out = console()
    kernels = kernels or device.load_kernels(target, dtype, out_dtype)
    print_facts("moonpoly", kernels.describe(), out)
    stage, pool = Stage.open(), Pool(kernels.types, seed)
    oracles = [Oracle(kernels, stage, pool, overlap=overlap) for overlap in (True, False)]
    shapes = held_out_shapes(sample or SHAPES, seed, kernels.types.aligned_items)
    rows = [
        oracles[index % 2].sample(problem) | {"overlap": index % 2 == 0}
        for index, problem in enumerate(track(shapes, "shapes", out))
    ]
    summary = summarise(rows)
    show(rows, out)
    write_json(json, summary, rows, kernels=kernels.describe())
    return summary
