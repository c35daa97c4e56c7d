"""``moonpoly tune``, ``export`` and ``calibrate``: the offline stage."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from moonpoly.cli.options import TargetName
from moonpoly.cli.screen import console
from moonpoly.target import Target
from moonpoly.workload import Workload

Op = Annotated[str, typer.Option("--op", help="The operator to tune.")]
Dtype = Annotated[str, typer.Option("--dtype", help="Its element type.")]

Launches = Annotated[
    int | None,
    typer.Option(
        min=1,
        help="For a GPU: shapes to record launches on, 120 if not given. With more, kernels are "
        "chosen and costs fitted better.",
    ),
]


def tune(
    target: TargetName = "host",
    op: Op = "gemm",
    dtype: Dtype = "float32",
    trials: Annotated[
        int | None, typer.Option(min=1, help="Schedules to measure for each tile.")
    ] = None,
    launches: Launches = None,
    like: Annotated[
        str,
        typer.Option(
            metavar="DTYPE",
            help="For a GPU: take the micro-kernels of this type instead of searching. Their costs "
            "are guessed from its costs; `moonpoly calibrate` measures them.",
        ),
    ] = "",
    work_dir: Annotated[
        Path | None,
        typer.Option(
            metavar="FOLDER",
            help="Where steps are kept, so that an interrupted run goes on; else in the cache.",
        ),
    ] = None,
) -> None:
    """Search micro-kernels for a target, without knowing any shape."""
    from moonpoly.autotune.sources import own_sources
    from moonpoly.autotune.tune import tune as search

    resolved, workload = Target.parse(target), Workload(op, dtype)
    if like:
        from moonpoly.autotune.gpu.derive import derive

        if trials or launches:
            raise typer.BadParameter("--like measures nothing: leave --trials and --launches")
        sources = own_sources(resolved, workload)
        derive(resolved, workload, Workload(op, like), sources)
    else:
        sources = search(
            resolved, workload, trials=trials, launches=launches, work_dir=work_dir
        ).sources
    console.print(f"records: {sources.records}")
    console.print(f"task costs: {sources.costs}")


def export(
    target: TargetName = "host",
    op: Op = "gemm",
    dtype: Dtype = "float32",
    output: Annotated[
        Path | None,
        typer.Option("-o", "--output", metavar="FOLDER", help="Where to; else in the cache."),
    ] = None,
) -> None:
    """Build an artifact from its tuning records, without a search."""
    from moonpoly.autotune.export import export as build

    artifact = build(Target.parse(target), Workload(op, dtype), output)
    console.print(f"{artifact.path}  {len(artifact.manifest['kernels'])} micro-kernels")


def calibrate(
    target: TargetName = "host",
    op: Op = "gemm",
    dtype: Dtype = "float32",
    launches: Launches = None,
    refine: Annotated[
        bool,
        typer.Option(
            "--refine/--no-refine",
            help="For a GPU: move the costs that are there by what is recorded, sampling nothing.",
        ),
    ] = False,
) -> None:
    """Refit the task costs on this machine; best when it is otherwise idle."""
    from moonpoly.autotune.calibrate import calibrate as refit

    done = refit(Target.parse(target), Workload(op, dtype), launches=launches, refine=refine)
    console.print(f"{done.num_kernels} micro-kernels measured and fitted in {done.seconds:.0f} s")
    console.print(f"task costs: {done.sources.costs}; artifacts are built with them from now on")
