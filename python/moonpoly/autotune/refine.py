"""Measure the search's best schedules again, as exported kernels, and keep one of each tile.

The search times fixed extents on processor time, one problem in two states of the caches. Here the
final code (extents symbolic) runs in more situations, on wall-clock time, and the geometric mean
decides.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from tvm import tirx

from moonpoly.autotune.candidates import Candidate
from moonpoly.autotune.launcher import Launcher, pinned
from moonpoly.autotune.measure import STREAM_BYTES
from moonpoly.autotune.sample import TaskShape
from moonpoly.target import Target

_MIN_MS = 4.0
_ITEM_BYTES = 4


def contexts(candidate: Candidate) -> dict[str, TaskShape]:
    """Return the situations that a kernel's schedule is chosen for, by name."""
    tile = candidate.tile
    if tile.family == "outer":
        k = 1024
        streamed = max(1, STREAM_BYTES // (k * tile.un * _ITEM_BYTES))
        wide = max(1, 1024 // tile.un)
        return {
            "short": TaskShape(48, 4, 4),
            "cached": TaskShape(384, 4, 4),
            "streamed": TaskShape(k, 1, streamed),
            "strided": TaskShape(500, 2, wide, row_stride=1024, packed=False),
        }
    k = 2000
    streamed = max(1, STREAM_BYTES // (k * tile.um * _ITEM_BYTES))
    return {
        "short": TaskShape(96, 4, 4),
        "cached": TaskShape(768, 4, 2),
        "streamed": TaskShape(k, streamed, 1),
        "odd": TaskShape(77, 8, 2),
    }


def refine(
    candidate: Candidate,
    kernels: Sequence[tirx.PrimFunc],
    target: Target,
) -> tuple[int, dict[str, float]]:
    """Return which of a candidate's scheduled kernels is best, and its GFLOP/s in each context."""
    names = [replace(candidate, name=f"{candidate.name}_{i}") for i in range(len(kernels))]
    launcher = Launcher(dict(zip(names, kernels, strict=True)), target)
    operations = 2e-3 * candidate.tile.um * candidate.tile.un
    with pinned():
        speeds = [
            {
                context: operations * shape.k / launcher.task_us(one, shape, _MIN_MS)
                for context, shape in contexts(candidate).items()
            }
            for one in names
        ]
    best = int(np.argmax([np.log(list(speed.values())).mean() for speed in speeds]))
    return best, {context: round(gflops, 1) for context, gflops in speeds[best].items()}
