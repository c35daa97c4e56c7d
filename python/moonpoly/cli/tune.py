"""``moonpoly tune``, ``export`` and ``calibrate``: the offline stage."""

from __future__ import annotations

from typing import Annotated

import typer

from moonpoly.cli.options import TargetName
from moonpoly.target import Target
from moonpoly.workload import Workload

Op = Annotated[str, typer.Option("--op", help="The operator to tune.")]
Dtype = Annotated[str, typer.Option("--dtype", help="Its element type.")]


def tune(target: TargetName = "host", op: Op = "gemm", dtype: Dtype = "float32") -> None:
    """Search micro-kernels for a target without knowing any shape."""
    from moonpoly import autotune

    autotune.tune(Target.parse(target), Workload(op, dtype))


def export(target: TargetName = "host", op: Op = "gemm", dtype: Dtype = "float32") -> None:
    """Rebuild an artifact from committed records, without a search."""
    from moonpoly import autotune

    autotune.export(Target.parse(target), Workload(op, dtype))


def calibrate(target: TargetName = "host", op: Op = "gemm", dtype: Dtype = "float32") -> None:
    """Refit the task costs of an artifact on this machine."""
    from moonpoly import autotune

    autotune.calibrate(Target.parse(target), Workload(op, dtype))
