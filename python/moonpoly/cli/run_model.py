"""``moonpoly run``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import numpy as np
import typer

from moonpoly.cli.options import Threads, parse_shapes
from moonpoly.cli.screen import console, dims, table
from moonpoly.runtime import Fill


def run_model(
    model: Annotated[Path, typer.Argument(metavar="MODEL.so", help="The compiled model.")],
    inputs: Annotated[
        Path | None, typer.Option(metavar="FILE.npz", help="Arrays by input name.")
    ] = None,
    fill: Annotated[
        Fill | None, typer.Option(help="Make the inputs instead of reading them.")
    ] = None,
    shape: Annotated[
        list[str] | None,
        typer.Option(
            metavar="INPUT=2x37",
            help="The shape to make of an input; one that others determine may be left out. "
            "Sizes that nothing determines are the largest of their --dim-hint, if they had one.",
        ),
    ] = None,
    seed: Annotated[int, typer.Option(min=0, help="Seed of --fill random.")] = 0,
    outputs: Annotated[
        Path | None, typer.Option(metavar="FILE.npz", help="Where to write the outputs.")
    ] = None,
    print_time: Annotated[bool, typer.Option("--print-time", help="Time the call.")] = False,
    repeat: Annotated[int, typer.Option(min=1, help="Calls to time.")] = 10,
    threads: Threads = None,
) -> None:
    """Run a compiled model on given or made inputs."""
    from moonpoly import _ffi_api, config, runtime

    if (inputs is None) == (fill is None):
        raise typer.BadParameter("give either --inputs FILE.npz or --fill")
    if inputs is not None and shape:
        raise typer.BadParameter("--shape goes with --fill; arrays from --inputs have their shapes")
    if outputs is not None:
        config.check_writable(outputs)
    executable = runtime.load(model)
    if threads is not None:
        _ffi_api.set_num_threads(threads)
    if inputs is not None:
        arrays = runtime.read_npz(inputs)
    else:
        hints = executable.metadata.get("dim_hints", {})
        arrays = runtime.fill_inputs(
            [spec for spec in executable.inputs if spec.name not in executable.optional],
            parse_shapes(shape or []),
            expected={dim: high for dim, (_, high) in hints.items()},
            fill=fill or Fill.RANDOM,
            seed=seed,
        )
    results = executable(**arrays)
    console.print(
        table(
            ("output", "dtype", "shape", "min>", "mean>", "max>"),
            (
                (name, array.dtype, dims(array.shape), *_range(array))
                for name, array in results.items()
            ),
        )
    )
    if outputs is not None:
        runtime.write_npz(outputs, results)
        console.print(f"written: {outputs}")
    if print_time:
        times = runtime.time_calls(executable, arrays, repeat=repeat)
        console.print(
            f"time: median {times.median_us:,.0f} µs, min {times.min_us:,.0f}, "
            f"mean {times.mean_us:,.0f}, max {times.max_us:,.0f} over {repeat} calls"
        )


def _range(array: np.ndarray) -> tuple[str, str, str]:
    if array.size == 0:
        return "-", "-", "-"
    values = array.astype(np.float64)
    return f"{values.min():.6g}", f"{values.mean():.6g}", f"{values.max():.6g}"
