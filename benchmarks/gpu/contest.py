"""One problem measured: every contender's graph, in turns, by the GPU's own clock."""

from __future__ import annotations

import json
import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ..peer import BenchmarkError
from ..shape_lists import Problem
from .contenders import Cublas, Lt, Ours, Stage
from .operands import OperandSet, Pool
from .types import Types

# Ours with launches that overlap their neighbours and without; cuBLAS as torch calls it; cuBLASLt's
# first choice and the fastest of its choices.
PDL, PLAIN, CUBLAS, LT_FIRST, LT_BEST = "pdl", "plain", "cublas", "lt_first", "lt_best"


@dataclass(frozen=True)
class Protocol:
    """How long a problem is measured.

    Parameters
    ----------
    sample_us
        The least time of one sample; a sample is whole runs of a graph.
    rounds
        Samples of each contender, of which the median counts.
    lt_choices
        Algorithms of cuBLASLt that are tried.
    lt_finalists
        Those of them that take part in every round.
    """

    sample_us: float = 250.0
    rounds: int = 7
    lt_choices: int = 12
    lt_finalists: int = 3


@dataclass(frozen=True)
class Result:
    """Median µs of one call by contender, with operands in the cache and out of it."""

    problem: Problem
    warm_us: dict[str, float]
    cold_us: dict[str, float]
    plan: str
    predicted_us: float
    errors: dict[str, float] = field(default_factory=dict)

    def ratio(self, peer: str, ours: str = PDL, *, cold: bool = False) -> float:
        """The peer's µs over ours: above 1, ours is faster."""
        us = self.cold_us if cold else self.warm_us
        return us[peer] / us[ours]

    def as_json(self) -> dict[str, Any]:
        """Plain values."""
        p = self.problem
        rounded = {name: round(us, 3) for name, us in self.warm_us.items()}
        cold = {f"cold_{name}": round(us, 3) for name, us in self.cold_us.items()}
        shape: dict[str, Any] = {"source": p.source, "m": p.m, "n": p.n, "k": p.k}
        return (
            shape | rounded | cold | {"plan": self.plan, "predicted": round(self.predicted_us, 3)}
        )


def describe(plan_json: str) -> str:
    """Name a plan in a few words: its pattern, its micro-kernels and what each computes."""
    plan = json.loads(plan_json)
    regions = []
    for region in plan["regions"]:
        text = region["kernel"].partition("sm90a_")[2] or region["kernel"]
        if region["cluster"] * region["slices"] > 1:
            text += f"/{region['cluster']}x{region['slices']}"
        regions.append(text)
    return f"{plan['pattern']} {' + '.join(regions)}"


class Contest:
    """All contenders on one GPU."""

    def __init__(self, kernels: Any, types: Types, protocol: Protocol, seed: int) -> None:
        self.stage = Stage.open()
        self.types = types
        self.pool = Pool(types, seed)
        self.ours = Ours(kernels, self.stage, types)
        self.cublas = Cublas(self.stage, types)
        self.lt = Lt(self.stage)
        self.protocol = protocol

    def time(self, graphs: Mapping[str, Any], calls: int, guess_us: float) -> dict[str, float]:
        """Return the median µs of a call of each graph; ``guess_us`` sizes the samples."""
        return time_graphs(
            self.stage, graphs, calls, dict.fromkeys(graphs, guess_us), self.protocol
        )

    def measure(self, problem: Problem, *, cold: bool) -> Result:
        """Measure one problem, cold as well where asked for.

        Raises
        ------
        BenchmarkError
            If a contender computes something else.
        """
        sets = self.pool.sets(problem, cold=False)
        plans = {
            name: self.ours.plan(problem, overlap=overlap)
            for name, overlap in ((PDL, True), (PLAIN, False))
        }
        errors = self._check(problem, sets[0], plans)
        guess_us = self._guess_us(sets)
        calls = max(3, min(30, round(self.protocol.sample_us / guess_us)))
        captures = self._captures(problem, plans)
        warm, chosen = self._warm(captures, sets, calls, guess_us)
        cold_us = {}
        if cold:
            many = self.pool.sets(problem, cold=True)
            graphs = {
                name: capture(many, len(many))
                for name, capture in captures.items()
                if not name.startswith("lt_") or name in chosen
            }
            cold_us = _best_lt(self.time(graphs, len(many), guess_us))
        return Result(
            problem,
            warm,
            cold_us,
            describe(plans[PDL]),
            float(json.loads(plans[PDL])["predicted_us"]),
            errors,
        )

    def _guess_us(self, sets: Sequence[OperandSet]) -> float:
        graphs = {CUBLAS: self.cublas.capture(sets, 3)}
        once = Protocol(sample_us=0.0, rounds=2)
        return max(1.0, time_graphs(self.stage, graphs, 3, {CUBLAS: 1.0}, once)[CUBLAS])

    def _captures(
        self, problem: Problem, plans: Mapping[str, str]
    ) -> dict[str, Callable[[Sequence[OperandSet], int], Any]]:
        def of_plan(plan: str) -> Callable[[Sequence[OperandSet], int], Any]:
            return lambda sets, calls: self.ours.capture(plan, sets, calls)

        captures: dict[str, Callable[[Sequence[OperandSet], int], Any]] = {
            name: of_plan(plan) for name, plan in plans.items()
        }
        captures[CUBLAS] = self.cublas.capture
        choices = self.lt.captures(problem, self.types, self.protocol.lt_choices)
        return captures | {f"lt_{index}": choice for index, choice in enumerate(choices)}

    def _warm(
        self,
        captures: Mapping[str, Callable[[Sequence[OperandSet], int], Any]],
        sets: Sequence[OperandSet],
        calls: int,
        guess_us: float,
    ) -> tuple[dict[str, float], set[str]]:
        """Return the medians, and which of cuBLASLt's choices took part in every round."""
        graphs = {name: capture(sets, calls) for name, capture in captures.items()}
        choices = [name for name in graphs if name.startswith("lt_")]
        look = Protocol(self.protocol.sample_us, rounds=2)
        first_look = time_graphs(
            self.stage,
            {name: graphs[name] for name in choices},
            calls,
            dict.fromkeys(choices, guess_us),
            look,
        )
        fastest = sorted(choices, key=first_look.__getitem__)[: self.protocol.lt_finalists]
        chosen = {"lt_0", *fastest} & set(choices)
        taking_part = {
            name: graph
            for name, graph in graphs.items()
            if not name.startswith("lt_") or name in chosen
        }
        return _best_lt(self.time(taking_part, calls, guess_us)), chosen

    def _check(
        self, problem: Problem, operands: OperandSet, plans: Mapping[str, str]
    ) -> dict[str, float]:
        """Refuse to compare what computes something else."""
        errors = {}
        for name, plan in plans.items():
            operands.c.fill_(self.types.poison)
            self.ours.run(plan, operands)
            errors[name] = self.pool.error(operands, problem.m + problem.n)
        operands.c.fill_(self.types.poison)
        self.cublas.run(operands)
        errors[CUBLAS] = self.pool.error(operands, problem.m + problem.n)
        for name, error in errors.items():
            # cuBLAS may add up in half precision, as torch allows it to.
            limit = self.types.operator_rel
            if name == CUBLAS and not self.types.exact:
                limit = max(limit, 1e-3)
            if not error <= limit:
                raise BenchmarkError(
                    f"{name} is wrong at {problem.m}x{problem.n}x{problem.k} ({plans.get(name)}): "
                    f"error {error:.1e}, at most {limit:.0e} expected"
                )
        return errors


def time_graphs(
    stage: Stage,
    graphs: Mapping[str, Any],
    calls: int,
    guesses_us: Mapping[str, float],
    protocol: Protocol,
) -> dict[str, float]:
    """Return the median µs of one call of each graph of so many calls, in turns.

    The guesses of a call's µs size the samples: they bound how long this takes.
    """
    import numpy as np

    from moonpoly import _ffi_api

    if not graphs:
        return {}
    replays = [max(1, round(protocol.sample_us / (guesses_us[name] * calls))) for name in graphs]
    us = np.from_dlpack(
        _ffi_api.gpu_time(list(graphs.values()), replays, protocol.rounds, stage.stream)
    ).reshape(protocol.rounds, len(graphs))
    return {
        name: statistics.median(us[:, index].tolist()) / calls for index, name in enumerate(graphs)
    }


def _best_lt(us: dict[str, float]) -> dict[str, float]:
    """Name the first and the fastest of cuBLASLt's choices; it has none for some problems."""
    choices = {name: value for name, value in us.items() if name.startswith("lt_")}
    out = {name: value for name, value in us.items() if name not in choices}
    if choices:
        out[LT_FIRST] = choices.get("lt_0", min(choices.values()))
        out[LT_BEST] = min(choices.values())
    return out
