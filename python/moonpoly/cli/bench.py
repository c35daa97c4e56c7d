"""``moonpoly bench``: the measurements that live in ``benchmarks/``."""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import typer

from moonpoly.cli.options import Threads
from moonpoly.error import TargetError
from moonpoly.target import Target

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


BenchTarget = Annotated[
    str,
    typer.Option(
        "--target", metavar="NAME", help="A GPU such as cuda-sm90a; else this machine's processor."
    ),
]
Dtype = Annotated[
    str,
    typer.Option(
        "--dtype", help="Of A and B on a GPU: float16, bfloat16, tf32, float8_e4m3fn or int8."
    ),
]
OutDtype = Annotated[
    str, typer.Option("--out-dtype", help="Of C on a GPU, such as float32; else the usual one.")
]


class _On(NamedTuple):
    """Where a benchmark runs; on a GPU, with which types."""

    target: str = "host"
    dtype: str = ""
    out_dtype: str = ""


_HERE = _On()


def _call(name: str, on: _On = _HERE, **options: Any) -> None:
    """Run a benchmark: the processor's, or the one of the same name for a GPU."""
    gpu = Target.parse(on.target).kind == "cuda"
    if not gpu and on.target != "host":
        raise TargetError(
            f"benchmarks run on this machine: give a GPU or leave --target {on.target}"
        )
    if gpu and options.pop("threads") is not None:
        raise TargetError(f"--threads counts a processor's; {on.target} takes all of the GPU")
    module = importlib.import_module(f"moonpoly.benchmarks.{'gpu.' if gpu else ''}{name}")
    module.main(**options, **(on._asdict() if gpu else {}))


@app.command()
def validity(
    sample: Sample = None,
    seed: Seed = 0,
    target: BenchTarget = "host",
    dtype: Dtype = "float16",
    out_dtype: OutDtype = "",
    threads: Threads = None,
    json: Json = None,
) -> None:
    """Check every shape of two sweeps against float64."""
    _call(
        "validity",
        _On(target, dtype, out_dtype),
        sample=sample,
        seed=seed,
        threads=threads,
        json=json,
    )


@app.command()
def select(
    sample: Sample = None,
    seed: Seed = 0,
    target: BenchTarget = "host",
    dtype: Dtype = "float16",
    out_dtype: OutDtype = "",
    threads: Threads = None,
    json: Json = None,
) -> None:
    """Time one selection in C++, uncached and cached."""
    _call(
        "select",
        _On(target, dtype, out_dtype),
        sample=sample,
        seed=seed,
        threads=threads,
        json=json,
    )


@app.command()
def launch(
    target: Annotated[str, typer.Option("--target", metavar="NAME", help="The GPU.")],
    seed: Seed = 0,
    dtype: Dtype = "float16",
    out_dtype: OutDtype = "",
    json: Json = None,
) -> None:
    """Time what a product on a GPU costs the processor: tensor maps, plan, whole calls."""
    if Target.parse(target).kind != "cuda":
        raise TargetError(f"launches are timed on a GPU such as cuda-sm90a, got {target!r}")
    _call("launch", _On(target, dtype, out_dtype), seed=seed, json=json, threads=None)


@app.command()
def oracle(
    sample: Sample = None,
    seed: Seed = 0,
    target: BenchTarget = "host",
    dtype: Dtype = "float16",
    out_dtype: OutDtype = "",
    threads: Threads = None,
    json: Json = None,
) -> None:
    """Compare the chosen plans with the best of an exhaustive measurement."""
    _call(
        "oracle",
        _On(target, dtype, out_dtype),
        sample=sample,
        seed=seed,
        threads=threads,
        json=json,
    )


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
    target: BenchTarget = "host",
    dtype: Dtype = "float16",
    out_dtype: OutDtype = "",
    threads: Threads = None,
    json: Json = None,
) -> None:
    """Compare products with ONNX Runtime, oneDNN and OpenBLAS; on a GPU with cuBLAS."""
    _call(
        "gemm",
        _On(target, dtype, out_dtype),
        sample=sample,
        seed=seed,
        shapes=shapes,
        plot=plot,
        threads=threads,
        json=json,
    )


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
