"""The task-cost model: one XGBoost regression for each micro-kernel, and one for memory.

While a share's operands lie in a processing unit's own cache, a straight line in k (fixed part +
part per step) explains most of a task's cost, and a kernel's own trees learn the logarithm of what
is left: how the cost depends on the number of tiles that share a call and on a row-major B.

Beyond that cache the cost depends on memory that all units share, and measuring it is noisy: the
neighbours on the machine use it too. The best of forty noisy predictions is one that noise made too
low, so a plan must not be chosen by them. What memory does to a task is therefore learned by one
regression from all kernels' samples together; it knows a kernel by the shape of its tile alone.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
import xgboost

from moonpoly.autotune.candidates import Candidate
from moonpoly.autotune.sample import (
    ALIASING_ITEMS,
    ITEM_BYTES,
    LINE_ITEMS,
    TaskShape,
    row_kind,
)
from moonpoly.error import TuneError

# The grid that every table is given on. Costs are linear in k between points.
GRID: dict[str, list[int]] = {
    "k": [1, 8, 32, 64, 128, 256, 512, 1024, 2048, 4096, 8192, 16384],
    "m_tiles": [1, 2, 4, 16, 64, 512, 4096],
    "n_tiles": [1, 2, 4, 8, 16, 64, 256, 1024],
}

# A stride of rows that stands for each kind, and the layouts of B and C that a table is given for.
_PLAIN, _ALIASED, _UNALIGNED = (
    ALIASING_ITEMS + LINE_ITEMS,
    ALIASING_ITEMS,
    ALIASING_ITEMS + LINE_ITEMS // 2,
)
_ROWS = {
    "packed": (_PLAIN, True),
    "packed_aliased": (_ALIASED, True),
    "packed_unaligned": (_UNALIGNED, True),
    "strided": (_PLAIN, False),
    "aliased": (_ALIASED, False),
    "unaligned": (_UNALIGNED, False),
}
LAYOUTS = tuple(_ROWS)
_ROW_KINDS = ("aliased", "unaligned")

_ROUNDS = 300
_PARAMETERS = {
    "objective": "reg:squarederror",
    "max_depth": 5,
    "eta": 0.08,
    "min_child_weight": 2,
    "subsample": 0.8,
    "lambda": 1.0,
    "nthread": 1,
    "seed": 0,
}
# The trees of memory see many samples of each problem.
_MEMORY_PARAMETERS = {**_PARAMETERS, "min_child_weight": 8}
_MIN_SAMPLES = 12
_In = TypeVar("_In")
_Out = TypeVar("_Out")
# Tables are committed as text: measurements are not known better than this.
_DIGITS = 3


@dataclass(frozen=True)
class Samples:
    """What was measured of one micro-kernel.

    Parameters
    ----------
    candidate
        The micro-kernel.
    shapes
        The shares.
    costs_us
        Microseconds of one task in each.
    """

    candidate: Candidate
    shapes: Sequence[TaskShape]
    costs_us: Sequence[float]


@dataclass(frozen=True)
class NearModel:
    """The cost of one micro-kernel's task in a unit's own cache.

    Parameters
    ----------
    candidate
        The micro-kernel.
    fixed_us, step_us
        The line: microseconds of a task and of each step of its reduction.
    trees
        The regression of the logarithm of cost / line.
    """

    candidate: Candidate
    fixed_us: float
    step_us: float
    trees: xgboost.Booster

    def task_us(self, shapes: Sequence[TaskShape]) -> np.ndarray:
        """Return the predicted microseconds of one task in a share of each shape, float64."""
        line = self.fixed_us + self.step_us * np.array([shape.k for shape in shapes])
        residual = self.trees.predict(xgboost.DMatrix(_near_features(self.candidate, shapes)))
        return line * np.exp(residual.astype(np.float64))


@dataclass(frozen=True)
class CostModel:
    """The fitted cost of one micro-kernel's task.

    Parameters
    ----------
    near
        Its cost in a unit's own cache.
    memory
        The regression of the logarithm of the cost of any kernel's task beyond that cache over what
        ``near`` says of it; None where no sample was taken there.
    own_cache_bytes
        Bytes of the cache.
    """

    near: NearModel
    memory: xgboost.Booster | None
    own_cache_bytes: int

    @property
    def candidate(self) -> Candidate:
        """The micro-kernel."""
        return self.near.candidate

    def task_us(self, shapes: Sequence[TaskShape]) -> np.ndarray:
        """Return the predicted microseconds of one task in a share of each shape, float64."""
        near = self.near.task_us(shapes)
        if self.memory is None:
            return near
        features = _far_features(self.candidate, shapes)
        residual = self.memory.predict(xgboost.DMatrix(features)).astype(np.float64)
        sizes = np.array([shape.num_bytes(self.candidate.tile) for shape in shapes])
        # From half the cache to the whole of it one regime passes into the other.
        part = np.clip(np.log2(2 * sizes / self.own_cache_bytes), 0, 1)
        return near * np.exp(residual * part)

    @property
    def layouts(self) -> tuple[str, ...]:
        """The layouts that differ; the rows of a dot kernel's A and B are k elements long."""
        is_dot = self.candidate.tile.family == "dot"
        return ("packed", "aliased", "unaligned") if is_dot else LAYOUTS

    def table(self, layout: str) -> list[float]:
        """Return the costs on :data:`GRID` in µs, flattened as [k][m_tiles][n_tiles].

        A table never falls with k, whatever the noise of the samples.
        """
        shapes = [
            TaskShape(k, m_tiles, n_tiles, *_ROWS[layout])
            for k in GRID["k"]
            for m_tiles in GRID["m_tiles"]
            for n_tiles in GRID["n_tiles"]
        ]
        costs = self.task_us(shapes).reshape(len(GRID["k"]), -1)
        rising = np.maximum.accumulate(costs, axis=0)
        return [float(f"{cost:.{_DIGITS}g}") for cost in rising.ravel()]


def tables(models: Sequence[CostModel]) -> dict[str, dict[str, list[float]]]:
    """Return the tables of several micro-kernels by name and layout of B."""
    each = _concurrently(lambda m: {layout: m.table(layout) for layout in m.layouts}, models)
    return {model.candidate.name: costs for model, costs in zip(models, each, strict=True)}


def fit(samples: Sequence[Samples], own_cache_bytes: int) -> list[CostModel]:
    """Fit the models of micro-kernels to their sampled task costs, in order.

    Parameters
    ----------
    samples
        Of each kernel, shares that fit half of a unit's own cache and shares that don't.
    own_cache_bytes
        Bytes of that cache.

    Raises
    ------
    TuneError
        If a kernel has too few samples.
    """
    near = _concurrently(lambda each: _fit_near(*_part(each, own_cache_bytes, near=True)), samples)
    features, residuals = [], []
    for model, each in zip(near, samples, strict=True):
        candidate, far, costs = _part(each, own_cache_bytes, near=False)
        if far:
            features.append(_far_features(candidate, far))
            residuals.append(np.log(costs / model.task_us(far)))
    memory = None
    if features:
        data = xgboost.DMatrix(np.concatenate(features), label=np.concatenate(residuals))
        memory = xgboost.train(_MEMORY_PARAMETERS, data, num_boost_round=_ROUNDS)
    return [CostModel(model, memory, own_cache_bytes) for model in near]


def _concurrently(work: Callable[[_In], _Out], items: Sequence[_In]) -> list[_Out]:
    """Return the results of ``work`` in order; XGBoost lets go of Python's lock."""
    with ThreadPoolExecutor(len(os.sched_getaffinity(0))) as pool:
        return list(pool.map(work, items))


def _part(
    samples: Samples, own_cache_bytes: int, *, near: bool
) -> tuple[Candidate, list[TaskShape], np.ndarray]:
    """Return the candidate, and the shares and costs within half of that cache or beyond it."""
    tile = samples.candidate.tile
    rows = [
        (shape, cost)
        for shape, cost in zip(samples.shapes, samples.costs_us, strict=True)
        if (shape.num_bytes(tile) <= own_cache_bytes / 2) == near
    ]
    costs = np.array([cost for _, cost in rows], dtype=np.float64)
    return samples.candidate, [shape for shape, _ in rows], costs


def _fit_near(candidate: Candidate, shapes: Sequence[TaskShape], costs_us: np.ndarray) -> NearModel:
    if len(shapes) < _MIN_SAMPLES:
        raise TuneError(
            f"{candidate.name} has {len(shapes)} cost samples in cache, expected {_MIN_SAMPLES} "
            f"or more; sample again"
        )
    k = np.array([shape.k for shape in shapes], dtype=np.float64)
    fixed_us, step_us = _line(k, costs_us)
    residual = np.log(costs_us / (fixed_us + step_us * k))
    data = xgboost.DMatrix(_near_features(candidate, shapes), label=residual)
    trees = xgboost.train(_PARAMETERS, data, num_boost_round=_ROUNDS)
    return NearModel(candidate, fixed_us, step_us, trees)


def _line(k: np.ndarray, costs: np.ndarray) -> tuple[float, float]:
    """Fit cost = fixed + step * k with equal weight for equal relative error, both positive."""
    design = np.stack([np.ones_like(k), k], axis=1) / costs[:, None]
    (fixed, step), *_ = np.linalg.lstsq(design, np.ones_like(k), rcond=None)
    floor = float(costs.min())
    return max(float(fixed), 0.1 * floor), max(float(step), 1e-3 * floor / float(k.max()))


def _near_features(candidate: Candidate, shapes: Sequence[TaskShape]) -> np.ndarray:
    k, m, n = _extents(candidate, shapes)
    tiles = m / candidate.tile.um * n / candidate.tile.un
    columns = [*_sizes(candidate, k, m, n), np.log2(tiles), *_layouts(shapes)]
    return np.stack(columns, axis=1)


def _far_features(candidate: Candidate, shapes: Sequence[TaskShape]) -> np.ndarray:
    k, m, n = _extents(candidate, shapes)
    tile = candidate.tile
    kernel = [float(x) for x in (tile.um, tile.un, tile.um * tile.un, tile.family == "dot")]
    columns = [*_sizes(candidate, k, m, n), *_layouts(shapes)]
    return np.stack([*columns, *(np.full_like(k, x) for x in kernel)], axis=1)


def _extents(
    candidate: Candidate, shapes: Sequence[TaskShape]
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return k, m and n of each share, float64."""
    k = np.array([s.k for s in shapes], dtype=np.float64)
    m = np.array([s.m_tiles for s in shapes], dtype=np.float64) * candidate.tile.um
    n = np.array([s.n_tiles for s in shapes], dtype=np.float64) * candidate.tile.un
    return k, m, n


def _layouts(shapes: Sequence[TaskShape]) -> list[np.ndarray]:
    """Return of each share, as 0 or 1: whether B is packed, and of which kind its rows are."""
    kinds = [row_kind(s.row_stride) for s in shapes]
    return [
        np.array([s.packed for s in shapes], dtype=np.float64),
        *(np.array([k == kind for k in kinds], dtype=np.float64) for kind in _ROW_KINDS),
    ]


def _sizes(candidate: Candidate, k: np.ndarray, m: np.ndarray, n: np.ndarray) -> list[np.ndarray]:
    """Return the logarithms of the extents and of the bytes of operands."""
    a_bytes, b_bytes, c_bytes = (size * ITEM_BYTES for size in (k * m, k * n, m * n))
    # What must stay in a near cache for A to be found there by the next column of tiles.
    kept = a_bytes + k * candidate.tile.un * ITEM_BYTES
    sizes = (k, m, n, a_bytes, b_bytes, c_bytes, a_bytes + b_bytes + c_bytes, kept)
    return [np.log2(size) for size in sizes]
