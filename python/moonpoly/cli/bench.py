"""``moonpoly bench``: the measurements that live in ``benchmarks/``."""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import Annotated, Any

import typer

from moonpoly.cli.options import Threads

app = typer.Typer(
    help="Measure against peers and oracles; every benchmark prints the machine and versions.",
    no_args_is_help=True,
)

Sample = Annotated[
    int | None, typer.Option(min=1, help="Measure this many cases, drawn by the seed.")
]
Seed = Annotated[int, typer.Option(min=0, help="Seed of the drawn cases and of the data.")]
Json = Annotated[
    Path | None,
    typer.Option("--json", metavar="FILE", help="Write the summary and every sample here."),
]


def _call(name: str, **options: Any) -> None:
    module = importlib.import_module(f"moonpoly.benchmarks.{name}")
    module.main(**options)


@app.command()
def validity(
    sample: Sample = None, seed: Seed = 0, threads: Threads = None, json: Json = None
) -> None:
    """Check every shape of two sweeps against float64."""
    _call("validity", sample=sample, seed=seed, threads=threads, json=json)


@app.command()
def select(
    sample: Sample = None, seed: Seed = 0, threads: Threads = None, json: Json = None
) -> None:
    """Time one selection in C++, uncached and cached."""
    _call("select", sample=sample, seed=seed, threads=threads, json=json)


@app.command()
def oracle(
    sample: Sample = None, seed: Seed = 0, threads: Threads = None, json: Json = None
) -> None:
    """Compare the chosen plans with the best of an exhaustive measurement."""
    _call("oracle", sample=sample, seed=seed, threads=threads, json=json)


@app.command()
def gemm(
    sample: Sample = None,
    seed: Seed = 0,
    shapes: Annotated[
        Path | None, typer.Option(metavar="FILE.csv", help="A CSV with columns m, n, k.")
    ] = None,
    plot: Annotated[
        Path | None, typer.Option(metavar="FILE.svg", help="Draw the ratios of every shape.")
    ] = None,
    threads: Threads = None,
    json: Json = None,
) -> None:
    """Compare matrix multiplication with ONNX Runtime, oneDNN and OpenBLAS."""
    _call("gemm", sample=sample, seed=seed, shapes=shapes, plot=plot, threads=threads, json=json)


@app.command()
def models(
    seed: Seed = 0,
    check: Annotated[
        bool,
        typer.Option("--check", help="Check the values of every model of the registry instead."),
    ] = False,
    model: Annotated[
        list[str] | None,
        typer.Option("--model", "--only", metavar="NAME", help="Take this model; repeatable."),
    ] = None,
    threads: Threads = None,
    json: Json = None,
) -> None:
    """Compare whole models with ONNX Runtime, in values and in time."""
    _call("models", seed=seed, check=check, only=model or (), threads=threads, json=json)
