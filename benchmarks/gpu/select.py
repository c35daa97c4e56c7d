"""``moonpoly bench select --target``: the time of one selection for a GPU; no GPU is needed."""

from __future__ import annotations

import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from .. import shape_lists
from ..report import check_writable, console, print_facts, quantile, table, write_json
from ..shape_lists import Problem
from . import device

_RANDOM_SHAPES = 2_000
_LARGEST = 16_384


def random_shapes(count: int, seed: int) -> list[Problem]:
    """Shapes of every size, each axis drawn by its logarithm."""
    rng = random.Random(seed)
    return [
        Problem("random", *(round(_LARGEST ** rng.random()) for _ in range(3)))
        for _ in range(count)
    ]


def select_us(kernels: Any, problems: Sequence[Problem], *, cached: bool) -> list[float]:
    """Return the µs of each selection."""
    from moonpoly import _ffi_api

    flat = [axis for p in problems for axis in (p.m, p.n, p.k)]
    return list(np.from_dlpack(_ffi_api.gpu_bench_select(kernels, flat, "nt", cached)).tolist())


def main(
    *,
    target: str,
    dtype: str = "float16",
    out_dtype: str = "",
    sample: int | None = None,
    seed: int = 0,
    json: Path | None = None,
    kernels: device.Kernels | None = None,
) -> dict[str, Any]:
    """Time selections of the built-in lists and of random shapes.

    Returns
    -------
    dict
        ``median_us`` and ``p99_us`` of a selection that is not memoised, ``cached_us`` (median) of
        one that is.
    """
    check_writable(json)
    out = console()
    kernels = kernels or device.load_kernels(target, dtype, out_dtype, run=False)
    print_facts("moonpoly", kernels.describe(), out)
    problems = shape_lists.load() + random_shapes(_RANDOM_SHAPES, seed)
    problems = shape_lists.sample(problems, sample, seed)
    fresh, cached = (
        select_us(kernels.handle, problems, cached=memoised) for memoised in (False, True)
    )
    summary = {
        "median_us": round(quantile(fresh, 0.5), 4),
        "p99_us": round(quantile(fresh, 0.99), 4),
        "cached_us": round(quantile(cached, 0.5), 4),
        "selections": len(fresh),
    }
    out.print(
        table(
            f"selection over {len(problems)} shapes, µs",
            ["", "median", "p99", "max"],
            [
                (name, quantile(us, 0.5), quantile(us, 0.99), max(us))
                for name, us in (("new", fresh), ("memoised", cached))
            ],
        )
    )
    samples = [
        {"m": p.m, "n": p.n, "k": p.k, "us": round(a, 4), "cached_us": round(b, 4)}
        for p, a, b in zip(problems, fresh, cached, strict=True)
    ]
    write_json(json, summary, samples)
    return summary
