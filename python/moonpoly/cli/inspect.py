"""``moonpoly inspect``: a compiled model, an ONNX model, a plan or an artifact."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from moonpoly import config
from moonpoly.cli.inspect_artifact import show_artifact
from moonpoly.cli.inspect_model import show_compiled_model, show_onnx_model
from moonpoly.cli.inspect_plan import show_plan
from moonpoly.cli.options import (
    DimHints,
    FixedDims,
    TargetName,
    Threads,
    parse_dim_hints,
    parse_dims,
)
from moonpoly.planning import BMode

_USES = "give MODEL.so, MODEL.onnx, `plan M N K`, or `artifact [FOLDER]`"


def inspect(
    what: Annotated[
        list[str],
        typer.Argument(
            metavar="WHAT...",
            help="MODEL.so, MODEL.onnx, `plan M N K`, or `artifact [FOLDER]`.",
        ),
    ],
    svg: Annotated[
        Path | None, typer.Option(metavar="FILE.svg", help="Draw the plan's regions.")
    ] = None,
    b: Annotated[
        BMode, typer.Option("--b", help="How B of a plan arrives: packed at compile time, or not.")
    ] = BMode.CONSTANT,
    target: TargetName = "host",
    threads: Threads = None,
    dim: FixedDims = None,
    dim_hint: DimHints = None,
) -> None:
    """Show what is in a model, a plan or an artifact."""
    kind, *rest = what
    is_onnx = not rest and Path(kind).suffix == ".onnx"
    if (dim or dim_hint) and not is_onnx:
        raise typer.BadParameter("--dim and --dim-hint go with MODEL.onnx")
    if svg is not None:
        if kind != "plan":
            raise typer.BadParameter("--svg draws a plan; use it with `inspect plan M N K`")
        config.check_writable(svg)
    if kind == "plan":
        if len(rest) != 3 or not all(word.isdecimal() for word in rest):
            raise typer.BadParameter(f"a plan needs three numbers M N K, got {' '.join(rest)!r}")
        m, n, k = map(int, rest)
        show_plan(m, n, k, b=b, target=target, threads=threads, svg=svg)
    elif kind == "artifact":
        if len(rest) > 1:
            raise typer.BadParameter("an artifact is one folder")
        show_artifact(Path(rest[0]) if rest else None, target=target)
    elif rest:
        raise typer.BadParameter(_USES)
    elif is_onnx:
        show_onnx_model(Path(kind), parse_dims(dim or []), parse_dim_hints(dim_hint or []))
    else:
        show_compiled_model(Path(kind))
