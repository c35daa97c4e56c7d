"""Time micro-kernels as products run them: through the launcher, on the processing units of a plan.

A share that fits a unit's own cache is timed on one unit. What a larger one costs depends on the
memory that all units share, so each of them is given such a share at once, with operands of its
own. Operands are the same from run to run, so they lie in whatever cache holds them, as a model's
weights do.
"""

from __future__ import annotations

import contextlib
import functools
import json
import os
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import tvm_ffi
from tvm import tirx

from moonpoly import _ffi_api
from moonpoly.autotune.artifact import SCHEMA
from moonpoly.autotune.candidates import Candidate
from moonpoly.autotune.generate import load_kernels
from moonpoly.autotune.measure import huge_array
from moonpoly.autotune.sample import (
    ALIASING_ITEMS,
    ITEM_BYTES,
    LINE_ITEMS,
    MAX_BYTES,
    TaskShape,
)
from moonpoly.target import Target

_ROW_MAJOR, _TRANSPOSED, _PACKED = 1, 2, 0
_LAUNCH_MS = 6.0
_PASSES = 2
# A task takes this part of a measurement at least, however little it computes.
_LEAST_PART = 0.05
# The planner needs some costs to make a plan; with a single kernel and grid their values are idle.
_NO_COSTS = {"packed": [1.0]}
_NO_CONSTANTS = {"launch_us": 1.0, "call_us": 1.0, "pack_us_per_kb": 1.0, "copy_us_per_kb": 1.0}


class Launcher:
    """Compiled micro-kernels of a target, each ready to be timed on its own.

    Parameters
    ----------
    kernels
        Each micro-kernel's scheduled program.
    target
        This machine.

    Attributes
    ----------
    own_cache_bytes
        Bytes of the second cache, the last that is a processing unit's own.
    """

    def __init__(self, kernels: Mapping[Candidate, tirx.PrimFunc], target: Target) -> None:
        self._library = load_kernels({c.name: program for c, program in kernels.items()}, target)
        self._target = target
        outer = [candidate for candidate in kernels if candidate.tile.family == "outer"]
        self._smallest = min(outer or kernels, key=lambda c: c.tile.um * c.tile.un)
        self.own_cache_bytes = own_cache_bytes()

    def task_costs(
        self, candidate: Candidate, shapes: Sequence[TaskShape], min_ms: float
    ) -> list[float]:
        """Return the microseconds of one task of ``candidate`` in a share of each shape.

        About ``min_ms`` are spent on each, within :func:`pinned`. All are measured, then all again:
        a neighbour on the machine may slow down many in a row, and the less of two is nearer the
        truth.
        """
        passes = [
            [self.task_us(candidate, shape, min_ms / _PASSES) for shape in shapes]
            for _ in range(_PASSES)
        ]
        return [min(each) for each in zip(*passes, strict=True)]

    def task_us(self, candidate: Candidate, shape: TaskShape, min_ms: float) -> float:
        """Return the microseconds of one task in a share of ``shape``, measured once."""
        near = shape.num_bytes(candidate.tile) <= self.own_cache_bytes / 2
        units = 1 if near else self._target.num_pes
        us = self._share_us(candidate, shape, units, min_ms)
        # What a share costs before its first task is a term of its own in a plan's cost.
        before = self.call_us + (self.launch_us if units > 1 else 0.0)
        return max(us - before, _LEAST_PART * us) / (shape.m_tiles * shape.n_tiles)

    @functools.cached_property
    def call_us(self) -> float:
        """Microseconds of a region that computes next to nothing."""
        return self._smallest_us(1)

    @functools.cached_property
    def launch_us(self) -> float:
        """Microseconds to start all processing units and to wait for them."""
        return max(self._smallest_us(self._target.num_pes) - self.call_us, 0.0)

    def _smallest_us(self, units: int) -> float:
        # Neighbours on the machine only add.
        least = TaskShape(1, 1, 1)
        return min(self._share_us(self._smallest, least, units, _LAUNCH_MS) for _ in range(5))

    def _share_us(self, candidate: Candidate, shape: TaskShape, units: int, min_ms: float) -> float:
        m, n = shape.m_tiles * candidate.tile.um, shape.n_tiles * candidate.tile.un
        b_mode = _b_mode(candidate, shape)
        kernels = self._kernel_set(candidate)
        plans = _ffi_api.enumerate_plans(kernels, m, n, shape.k, b_mode, units, batch=units)
        plan = next(text for text in plans if _is_one_share_each(json.loads(text), units))
        a, b, c = _operands(candidate, shape, units)
        return _ffi_api.time_plan(kernels, plan, a, b, c, b_mode, min_ms * 1e3)

    @functools.lru_cache(maxsize=64)  # noqa: B019  (as long-lived as the launcher)
    def _kernel_set(self, candidate: Candidate) -> Any:
        tile = candidate.tile
        kernel = {
            "name": candidate.name,
            "family": tile.family,
            "um": tile.um,
            "un": tile.un,
            "cost": _NO_COSTS,
        }
        manifest = {
            "schema": SCHEMA,
            "target": self._target.to_dict(),
            "op": "gemm",
            "dtype": candidate.dtype,
            "panel": candidate.lanes,
            "grid": {"k": [1], "m_tiles": [1], "n_tiles": [1]},
            "kernels": [kernel],
            "machine": _NO_CONSTANTS,
        }
        return _ffi_api.KernelSet(json.dumps(manifest), self._library)


def own_cache_bytes() -> int:
    """Return the bytes of the second cache, the last that is a processing unit's own."""
    return int(_ffi_api.cache_bytes()[1])


@contextlib.contextmanager
def pinned() -> Iterator[None]:
    """Keep the calling thread on a core of its own while it measures.

    The launcher's pool pins its own threads to the cores after the first. Left alone, the caller
    may sit on one of theirs for a thousand calls.
    """
    _ffi_api.num_threads()  # starts the pool, with all cores that this process may use
    cores = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {min(cores)})
    try:
        yield
    finally:
        os.sched_setaffinity(0, cores)


def _is_one_share_each(plan: dict[str, Any], units: int) -> bool:
    """Return whether a plan gives each unit one product as a single region, and packs nothing."""
    whole = plan["pattern"] == "I" and plan["batch_threads"] == units
    return whole and plan["threads"] == units and not plan["regions"][0]["pack_b"]


def _b_mode(candidate: Candidate, shape: TaskShape) -> int:
    if candidate.tile.family == "dot":
        return _TRANSPOSED
    return _PACKED if shape.packed else _ROW_MAJOR


def _operands(
    candidate: Candidate, shape: TaskShape, units: int
) -> tuple[tvm_ffi.Tensor, tvm_ffi.Tensor, tvm_ffi.Tensor]:
    """Return A (units, m, k), B as its mode wants it, and C (units, m, n)."""
    lanes, k = candidate.lanes, shape.k
    m, n = shape.m_tiles * candidate.tile.um, shape.n_tiles * candidate.tile.un
    # Rows of A that share a cache set slow down every kernel alike and would put bumps in the
    # model at single values of k.
    a_row = k + LINE_ITEMS if k % ALIASING_ITEMS == 0 else k
    a = _view("a", units, (m, k), (a_row, 1))
    if candidate.tile.family == "dot":
        return a, _view("b", units, (n, k), (k, 1)), _view("c", units, (m, n), (n, 1))
    width = shape.row_stride or n
    if shape.packed:
        b = _view("b", units, (n // lanes, k, lanes), (k * lanes, lanes, 1))
    else:
        b = _view("b", units, (k, n), (width, 1))
    return a, b, _view("c", units, (m, n), (width, 1))


def _view(
    operand: str, units: int, shape: tuple[int, ...], strides: tuple[int, ...]
) -> tvm_ffi.Tensor:
    """Return a tensor (units, *shape) of the operand's memory; no line has parts of two units."""
    size = 1 + sum((extent - 1) * stride for extent, stride in zip(shape, strides, strict=True))
    apart = -(-size // LINE_ITEMS) * LINE_ITEMS
    steps = tuple(stride * ITEM_BYTES for stride in (apart, *strides))
    memory = _memory(operand, units)
    return tvm_ffi.from_dlpack(
        np.lib.stride_tricks.as_strided(memory, (units, *shape), steps, writeable=True)
    )


@functools.cache
def _memory(_operand: str, units: int) -> np.ndarray:
    # A row of A or B may be a line longer than it need be.
    return huge_array(units * (MAX_BYTES // ITEM_BYTES) * 5 // 4)
