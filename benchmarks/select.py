"""``moonpoly bench select``: the time of one selection in C++, first and memoised, and of finding
the call site that it is for.
"""

from __future__ import annotations

import json as json_format
import random
from pathlib import Path
from typing import Any

import numpy as np

from moonpoly import config

from . import machine, shape_lists
from .our_kernels import B_MODES, Kernels, load_kernels
from .report import check_writable, console, print_facts, quantile, table, write_json
from .shape_lists import Problem

_RANDOM_SHAPES = 2_000
_LARGEST = 8_192
# As many models as a process may well have loaded, each with as many sites as a large network has.
_MODELS, _SITES = 8, 100


def _random_shapes(count: int, seed: int) -> list[Problem]:
    rng = random.Random(seed)
    return [
        Problem("random", *(round(_LARGEST ** rng.random()) for _ in range(3)))
        for _ in range(count)
    ]


def _lookup_ns(kernels: Kernels, seed: int) -> float:
    """Register models and return the nanoseconds of finding one of their call sites."""
    from moonpoly import _ffi_api

    rng = random.Random(seed)
    ids: list[int] = []
    for _ in range(_MODELS):
        # The high bits are a model's digest, the low 16 number its sites.
        first = rng.getrandbits(47) << 16
        own = range(first, first + _SITES)
        sites = [
            {
                "id": site_id,
                "op": "matmul",
                "artifact": "gemm_float32",
                "node": f"node {site_id - first}",
                "trans_a": False,
                "b": "row",
            }
            for site_id in own
        ]
        metadata = {"schema": 1, "artifacts": {"gemm_float32": kernels.manifest}, "sites": sites}
        _ffi_api.register_model(json_format.dumps(metadata), kernels.library)
        ids += own
    rng.shuffle(ids)
    return float(_ffi_api.bench_site_lookup(ids))


def main(
    *,
    sample: int | None = None,
    seed: int = 0,
    threads: int | None = None,
    json: Path | None = None,
) -> dict[str, Any]:
    """Time selections of the built-in lists and of random shapes in every mode of B.

    Returns
    -------
    dict
        ``median_us`` and ``p99_us`` of a selection that is not memoised, ``cached_us`` (median) of
        one that is, ``site_ns`` of finding a call site by its number.
    """
    from moonpoly import _ffi_api

    check_writable(json)
    threads = threads or config.num_threads()
    out = console()
    facts = machine.facts(threads)
    print_facts("machine", facts, out)
    kernels = load_kernels(threads)
    print_facts("moonpoly", kernels.describe(), out)
    problems = shape_lists.load() + _random_shapes(_RANDOM_SHAPES, seed)
    problems = shape_lists.sample(problems, sample, seed)
    flat = [axis for p in problems for axis in (p.m, p.n, p.k)]
    samples: list[dict[str, Any]] = []
    rows: list[tuple[object, ...]] = []
    fresh_all: list[float] = []
    cached_all: list[float] = []
    for mode, number in B_MODES.items():
        times = {
            cached: np.from_dlpack(
                _ffi_api.bench_select(kernels.handle, flat, number, threads, cached)
            ).tolist()
            for cached in (False, True)
        }
        fresh, again = times[False], times[True]
        fresh_all += fresh
        cached_all += again
        worst = max(range(len(problems)), key=fresh.__getitem__)
        p = problems[worst]
        rows.append(
            (
                mode,
                quantile(fresh, 0.5),
                quantile(fresh, 0.99),
                fresh[worst],
                f"{p.m} x {p.n} x {p.k}",
                quantile(again, 0.5),
                quantile(again, 0.99),
            )
        )
        samples += [
            {"b": mode, "m": p.m, "n": p.n, "k": p.k, "us": round(us, 4), "cached_us": round(c, 4)}
            for p, us, c in zip(problems, fresh, again, strict=True)
        ]
    summary = {
        "median_us": round(quantile(fresh_all, 0.5), 4),
        "p99_us": round(quantile(fresh_all, 0.99), 4),
        "cached_us": round(quantile(cached_all, 0.5), 4),
        "site_ns": round(_lookup_ns(kernels, seed), 2),
        "selections": len(fresh_all),
    }
    columns = ["B", "median µs", "p99 µs", "max µs", "at", "cached median", "cached p99"]
    out.print(table(f"selection over {len(problems)} shapes", columns, rows))
    out.print(
        f"[bold]median {summary['median_us']:.2f} µs, p99 {summary['p99_us']:.2f} µs, "
        f"cached {summary['cached_us']:.3f} µs, call site {summary['site_ns']:.1f} ns[/]"
    )
    write_json(json, summary, samples, machine=facts)
    return summary
