"""``moonpoly compile``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from moonpoly import config
from moonpoly.cli.options import DimHints, FixedDims, TargetName, parse_dim_hints, parse_dims
from moonpoly.cli.screen import console, report_counts, step_bar
from moonpoly.target import Target


def compile_model(
    model: Annotated[Path, typer.Argument(metavar="MODEL.onnx", help="The ONNX model.")],
    output: Annotated[
        Path, typer.Option("-o", "--output", metavar="MODEL.so", help="The file to write.")
    ],
    target: TargetName = "host",
    dim_hint: DimHints = None,
    dim: FixedDims = None,
    open_input: Annotated[
        list[str] | None,
        typer.Option(
            "--open",
            metavar="INITIALISER",
            help="Let a run give another value to an initialiser that the model lists as an input "
            "too; else it is a constant. Repeatable.",
        ),
    ] = None,
) -> None:
    """Compile an ONNX model into one library that runs at any shape."""
    from moonpoly import compiler

    hints, dims = parse_dim_hints(dim_hint or []), parse_dims(dim or [])
    # Found out now rather than after a minute of compiling.
    config.check_writable(output)
    with step_bar(model.name) as steps:
        metadata = compiler.build_library(
            model, Target.parse(target), hints, output, dims, open_input or [], steps
        )
    size_mb = output.stat().st_size / 1e6
    console.print(f"{output}  {size_mb:.1f} MB, {report_counts(metadata)}, {steps}")
