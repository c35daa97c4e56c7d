"""Classes, ratios and tables of the benchmarks on a GPU."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from rich.console import Console

from ..report import geomean, quantile, table
from ..shape_lists import Problem
from .contest import CUBLAS, LT_BEST, LT_FIRST, PDL, PLAIN, Result
from .types import Types

CLASSES = (
    "vector",
    "misaligned",
    "long-k",
    "latency-bound",
    "thin",
    "compute-bound",
    "memory-bound",
)
_LONG_K, _SMALL_OUTPUT = 4096, 1 << 18
_THIN = 96
# Below this a launch takes longer than the work.
_LATENCY_US = 1.0
_WORST_SHARE = 0.01


@dataclass(frozen=True)
class Ceiling:
    """What the GPU reached: TFLOP/s in a large product of some types, GB/s in a large copy."""

    tflops: float
    gbs: float
    types: Types = field(default_factory=Types)

    def limit_us(self, problem: Problem) -> float:
        """The larger of the operations and the bytes, each at its ceiling."""
        return max(problem.operations / self.tflops / 1e6, self.num_bytes(problem) / self.gbs / 1e3)

    def num_bytes(self, problem: Problem) -> int:
        """Bytes of A, B and C, each touched once."""
        m, n, k = problem.m, problem.n, problem.k
        return self.types.item_bytes * (m * k + n * k) + self.types.out_bytes * m * n

    @property
    def balance(self) -> float:
        """Operations per byte where the two meet."""
        return self.tflops * 1e3 / self.gbs


def kind(problem: Problem, ceiling: Ceiling) -> str:
    """The class in which a shape is reported; the first that applies."""
    m, n, k = problem.m, problem.n, problem.k
    if min(m, n) == 1:
        return "vector"
    if k % ceiling.types.aligned_items != 0 or n % ceiling.types.aligned_outputs != 0:
        return "misaligned"
    if k >= _LONG_K and m * n <= _SMALL_OUTPUT:
        return "long-k"
    if ceiling.limit_us(problem) < _LATENCY_US:
        return "latency-bound"
    if min(m, n) <= _THIN:
        return "thin"
    intensity = problem.operations / ceiling.num_bytes(problem)
    return "compute-bound" if intensity >= ceiling.balance else "memory-bound"


def summarise(results: Sequence[Result]) -> dict[str, Any]:
    """Geometric means against cuBLAS and cuBLASLt, the share won, and the worst of each hundred."""
    with_lt = [r for r in results if LT_BEST in r.warm_us]
    cold = [r for r in results if r.cold_us]
    pdl = [r.ratio(CUBLAS) for r in results]
    plain = [r.ratio(CUBLAS, PLAIN) for r in results]
    summary = {
        "geomean_pdl": geomean(pdl),
        "geomean_nopdl": geomean(plain),
        "geomean_best_of_lt": geomean(r.ratio(LT_BEST) for r in with_lt),
        "geomean_best_of_lt_nopdl": geomean(r.ratio(LT_BEST, PLAIN) for r in with_lt),
        "geomean_lt_first": geomean(r.ratio(LT_FIRST) for r in with_lt),
        "geomean_cold_pdl": geomean(r.ratio(CUBLAS, cold=True) for r in cold),
        "geomean_cold_nopdl": geomean(r.ratio(CUBLAS, PLAIN, cold=True) for r in cold),
        "win_rate": sum(x > 1 for x in pdl) / len(pdl),
        "win_rate_nopdl": sum(x > 1 for x in plain) / len(plain),
        "worst_1pct": quantile(pdl, _WORST_SHARE),
        "worst": min(pdl),
    }
    rounded: dict[str, Any] = {name: round(value, 4) for name, value in summary.items()}
    return rounded | {"shapes": len(results), "shapes_cold": len(cold)}


def class_rows(results: Sequence[Result], ceiling: Ceiling) -> list[dict[str, Any]]:
    """The figures of every class, and of all."""
    rows = []
    for name in (*CLASSES, "all"):
        chosen = [r for r in results if name in ("all", kind(r.problem, ceiling))]
        if not chosen:
            continue
        reached = geomean(ceiling.limit_us(r.problem) / r.warm_us[PDL] for r in chosen)
        rows.append({"class": name, "of_limit": round(reached, 4)} | summarise(chosen))
    return rows


def show(results: Sequence[Result], ceiling: Ceiling, out: Console) -> None:
    """Print the classes and the worst shapes."""
    out.print(f"ceilings: {ceiling.tflops:.0f} TFLOP/s, {ceiling.gbs:.0f} GB/s")
    keys = (
        "shapes",
        "geomean_pdl",
        "geomean_nopdl",
        "geomean_best_of_lt",
        "geomean_cold_pdl",
        "win_rate",
        "worst_1pct",
        "of_limit",
    )
    out.print(
        table(
            "cuBLAS µs / ours by class",
            ["class", *keys],
            [(row["class"], *(row[key] for key in keys)) for row in class_rows(results, ceiling)],
        )
    )
    worst = sorted(results, key=lambda r: r.ratio(CUBLAS))[: max(10, len(results) // 100)]
    out.print(
        table(
            "worst 1 %",
            ["m x n x k", "class", "plan", "cuBLAS µs", "ours µs", "predicted", "ratio"],
            [
                (
                    f"{r.problem.m} x {r.problem.n} x {r.problem.k}",
                    kind(r.problem, ceiling),
                    r.plan,
                    r.warm_us[CUBLAS],
                    r.warm_us[PDL],
                    r.predicted_us,
                    r.ratio(CUBLAS),
                )
                for r in worst
            ],
            text_columns=3,
        )
    )
