"""Records how long each micro-kernel takes on shapes of every kind, for fitting and for tests.

The shapes are drawn, not taken from any list that is measured elsewhere. Of each, every plan of one
region that is not hopeless is launched, overlapping and not; what is written names the kernel, the
split and the µs.
"""

from __future__ import annotations

import json as json_format
import random
import statistics
from pathlib import Path
from typing import Any

from moonpoly import config
from moonpoly.tir_templates.items import ALIGNED_BYTES

from ..report import console, track
from ..shape_lists import Problem
from . import device
from .contenders import Stage, access_of
from .operands import Pool

_HOPELESS_RATIO = 4.0
_SAMPLE_US, _MOST_CALLS, _ROUNDS = 120.0, 20, 3
_LINE_BYTES = 128
_SMALLEST, _LARGEST = 1 << 16, 1 << 38  # operations
# Extents of m, n and k, from and to: all kinds, thin outputs, long reductions, short ones, models.
_KINDS = (
    ((1, 16_384), (1, 16_384), (8, 16_384)),
    ((512, 50_000), (1, 128), (16, 8_192)),
    ((1, 128), (512, 50_000), (16, 8_192)),
    ((1, 512), (1, 512), (2_048, 200_000)),
    ((256, 20_000), (64, 8_192), (8, 128)),
    ((1, 4_096), (256, 8_192), (256, 8_192)),
)


def drawn_shapes(count: int, seed: int, aligned: int = 8) -> list[Problem]:
    """Shapes of every kind in turn; of four, three have rows of ``aligned`` items' multiple.

    Half of those have rows of A and B that are whole lines of the cache, as models mostly do.
    """
    rng = random.Random(f"record {seed}")
    shapes: dict[tuple[int, int, int], None] = {}
    while len(shapes) < count:
        extents = _KINDS[len(shapes) % len(_KINDS)]
        m, n, k = (round(low * (high / low) ** rng.random()) for low, high in extents)
        if rng.random() < 0.75:
            unit = rng.choice((aligned, aligned * _LINE_BYTES // ALIGNED_BYTES))
            k = -(-k // unit) * unit
        if rng.random() < 0.75:
            n = -(-n // aligned) * aligned
        if _SMALLEST <= 2 * m * n * k <= _LARGEST and m * n < 1 << 28:
            shapes[m, n, k] = None
    return [Problem("drawn", *shape) for shape in shapes]


def record(kernels: device.Kernels, problems: list[Problem], pool: Pool, stage: Stage) -> Any:
    """Yield two records of each problem, launches overlapping and not: its shape, and of each of
    its plans [kernel, cluster, slices, µs]."""
    import numpy as np
    import tvm_ffi

    from moonpoly import _ffi_api

    for problem in problems:
        shape = problem.m, problem.n, problem.k
        access = access_of(problem, kernels.types)
        texts = _ffi_api.gpu_enumerate_plans(kernels.handle, *shape, access=access, overlap=True)
        # Patterns II and III are of two regions.
        single = [(t, json_format.loads(t)) for t in texts if '"pattern":"II' not in t]
        least = min(plan["predicted_us"] for _, plan in single)
        tried = [(t, p) for t, p in single if p["predicted_us"] <= _HOPELESS_RATIO * least]
        [operands] = pool.sets(problem, cold=False)
        tensors = tuple(map(tvm_ffi.from_dlpack, (operands.a, operands.b.t(), operands.c)))
        calls = max(2, min(_MOST_CALLS, round(_SAMPLE_US / least)))
        us = np.from_dlpack(
            _ffi_api.gpu_time_plans(
                kernels.handle,
                [text for text, _ in tried],
                tensors,
                calls,
                _ROUNDS,
                stage.stream,
                # One by one, launches that don't overlap lie further apart than in a graph.
                in_graphs=True,
            )
        ).reshape(_ROUNDS, len(tried))
        launches: dict[bool, list[list[Any]]] = {False: [], True: []}
        for column, (_, plan) in enumerate(tried):
            [region] = plan["regions"]
            taken = round(statistics.median(us[:, column].tolist()), 3)
            key = region["kernel"], region["cluster"], region["slices"]
            launches[plan["overlap"]].append([*key, taken])
        for overlap, taken_by in launches.items():
            if taken_by:
                yield {
                    "m": problem.m,
                    "n": problem.n,
                    "k": problem.k,
                    "access": access,
                    "overlap": overlap,
                    "launches": taken_by,
                }


def main(
    *,
    target: str,
    dtype: str = "float16",
    out_dtype: str = "",
    sample: int | None = None,
    seed: int = 0,
    json: Path,
    kernels: device.Kernels | None = None,
) -> dict[str, Any]:
    """Write a record a line to `json`; return how many shapes and launches there are."""
    kernels = kernels or device.load_kernels(target, dtype, out_dtype)
    stage, pool, out = Stage.open(), Pool(kernels.types, seed), console()
    problems = drawn_shapes(sample or 600, seed, kernels.types.aligned_items)
    rows = list(record(kernels, list(track(problems, "shapes", out)), pool, stage))
    lines = "".join(json_format.dumps(row, separators=(",", ":")) + "\n" for row in rows)
    config.atomic_write(json, lines.encode())
    return {"shapes": len(problems), "launches": sum(len(row["launches"]) for row in rows)}
