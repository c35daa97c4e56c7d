"""Shows a plan as a table, and as a picture."""

from __future__ import annotations

from pathlib import Path

from moonpoly import config, planning
from moonpoly.cli.screen import console, dims, table


def show_plan(
    m: int, n: int, k: int, *, b: planning.BMode, target: str, threads: int | None, svg: Path | None
) -> None:
    """Print the plan of one problem shape; with ``svg``, draw it there."""
    plan = planning.plan(m, n, k, b=b, target=target, threads=threads)
    console.print(
        table(
            (
                "region",
                "rows>",
                "columns>",
                "k>",
                "micro-kernel",
                "tile",
                "tasks>",
                "waves>",
                "µs/task>",
                "µs>",
            ),
            (
                (
                    index,
                    f"{region.m0}–{region.m1}",
                    f"{region.n0}–{region.n1}",
                    f"{region.k0}–{region.k1}",
                    _kernel(region),
                    dims(region.tile),
                    f"{region.tasks:,}",
                    f"{region.waves:g}",
                    f"{region.task_us:.2f}",
                    f"{region.waves * region.task_us:,.1f}",
                )
                for index, region in enumerate(plan.regions)
            ),
            title=(
                f"C[{m}, {n}] = A[{m}, {k}] · B[{k}, {n}]  pattern {plan.pattern}, "
                f"{plan.threads} {plan.unit}s, predicted {plan.predicted_us:,.1f} µs "
                f"({plan.gflops:,.0f} GFLOP/s)"
            ),
        )
    )
    if svg is not None:
        config.atomic_write(svg, planning.draw_plan(plan).encode("utf-8"))
        console.print(f"drawn: {svg}")


def _kernel(region: planning.Region) -> str:
    """Name the micro-kernel, and how many blocks share the reduction where they do."""
    parts = region.cluster * region.slices
    return region.kernel if parts == 1 else f"{region.kernel}, k in {parts}"
