"""``moonpoly compile``."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Annotated

import typer

from moonpoly import config
from moonpoly.cli.options import FixedDims, TargetName, parse_dim_hints, parse_dims
from moonpoly.cli.screen import console, report_counts, step_bar
from moonpoly.target import Target


def compile_model(
    model: Annotated[Path, typer.Argument(metavar="MODEL.onnx", help="The ONNX model.")],
    output: Annotated[
        Path, typer.Option("-o", "--output", metavar="MODEL.so", help="The file to write.")
    ],
    target: TargetName = "host",
    dim_hint: Annotated[
        list[str] | None,
        typer.Option(
            metavar="SYMBOL=LOW:HIGH",
            help="The sizes to expect of a symbolic dimension, such as seq=1:512. Repeatable.",
        ),
    ] = None,
    dim: FixedDims = None,
) -> None:
    """Compile an ONNX model into one library that runs at any shape."""
    from moonpoly import compiler

    hints, dims = parse_dim_hints(dim_hint or []), parse_dims(dim or [])
    # Found out now rather than after a minute of compiling.
    config.check_writable(output)
    start = time.monotonic()
    with step_bar(model.name) as on_progress:
        metadata = compiler.build_library(
            model, Target.parse(target), hints, output, dims, on_progress
        )
    seconds = time.monotonic() - start
    size_mb = output.stat().st_size / 1e6
    console.print(f"{output}  {size_mb:.1f} MB, {seconds:.1f} s, {report_counts(metadata)}")
