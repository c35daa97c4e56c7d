"""The task-cost model: one XGBoost regression for each micro-kernel, tabulated for the selector.

A straight line in k (fixed part + part per step) explains most of a task's cost. The trees learn
the logarithm of what is left: how the cost depends on the cache that the operands lie in, on the
number of tiles that share a call, and on a row-major B.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import xgboost

from moonpoly.autotune.candidates import Candidate
from moonpoly.autotune.sample import ALIASING_ITEMS, TaskShape
from moonpoly.error import TuneError

# The grid that every table is given on. Costs are linear in k between points.
GRID: dict[str, list[int]] = {
    "k": [1, 8, 32, 64, 128, 256, 512, 1024, 2048, 4096, 8192, 16384],
    "m_tiles": [1, 2, 4, 16, 64],
    "n_tiles": [1, 2, 4, 8, 16, 64, 256],
}

# Of the layouts of B that a table is given for, a stride that stands for it.
_ROW_STRIDE = {"packed": 0, "strided": ALIASING_ITEMS + 16, "aliased": ALIASING_ITEMS}
LAYOUTS = tuple(_ROW_STRIDE)

_ITEM_BYTES = 4
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
_MIN_SAMPLES = 12
# Tables are committed as text: measurements are not known better than this.
_DIGITS = 4


@dataclass(frozen=True)
class CostModel:
    """The fitted cost of one micro-kernel's task.

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
        """Return the predicted microseconds of one task in a call of each shape, float64."""
        line = self.fixed_us + self.step_us * np.array([shape.k for shape in shapes])
        residual = self.trees.predict(xgboost.DMatrix(_features(self.candidate, shapes)))
        return line * np.exp(residual.astype(np.float64))

    def table(self, layout: str) -> list[float]:
        """Return the costs on :data:`GRID` in µs, flattened as [k][m_tiles][n_tiles].

        A table never falls with k, whatever the noise of the samples. Dot kernels know one layout
        only, so all their tables are the same.
        """
        if self.candidate.tile.family == "dot":
            layout = "packed"
        shapes = [
            TaskShape(k, m_tiles, n_tiles, _ROW_STRIDE[layout])
            for k in GRID["k"]
            for m_tiles in GRID["m_tiles"]
            for n_tiles in GRID["n_tiles"]
        ]
        costs = self.task_us(shapes).reshape(len(GRID["k"]), -1)
        rising = np.maximum.accumulate(costs, axis=0)
        return [float(f"{cost:.{_DIGITS}g}") for cost in rising.ravel()]


def fit(candidate: Candidate, shapes: Sequence[TaskShape], costs_us: Sequence[float]) -> CostModel:
    """Fit the model of one micro-kernel to its sampled task costs.

    Raises
    ------
    TuneError
        If there are too few samples.
    """
    if len(shapes) < _MIN_SAMPLES:
        raise TuneError(
            f"{candidate.name} has {len(shapes)} cost samples, expected {_MIN_SAMPLES} or more; "
            f"sample again"
        )
    costs = np.asarray(costs_us, dtype=np.float64)
    fixed_us, step_us = _line(np.array([s.k for s in shapes], dtype=np.float64), costs)
    residual = np.log(costs / (fixed_us + step_us * np.array([s.k for s in shapes])))
    data = xgboost.DMatrix(_features(candidate, shapes), label=residual)
    trees = xgboost.train(_PARAMETERS, data, num_boost_round=_ROUNDS)
    return CostModel(candidate, fixed_us, step_us, trees)


def _line(k: np.ndarray, costs: np.ndarray) -> tuple[float, float]:
    """Fit cost = fixed + step * k with equal weight for equal relative error, both positive."""
    design = np.stack([np.ones_like(k), k], axis=1) / costs[:, None]
    (fixed, step), *_ = np.linalg.lstsq(design, np.ones_like(k), rcond=None)
    floor = float(costs.min())
    return max(float(fixed), 0.1 * floor), max(float(step), 1e-3 * floor / float(k.max()))


def _features(candidate: Candidate, shapes: Sequence[TaskShape]) -> np.ndarray:
    """Return one row for each shape: logarithms of extents and of operands' bytes, and kinds."""
    um, un = candidate.tile.um, candidate.tile.un
    k = np.array([s.k for s in shapes], dtype=np.float64)
    m = np.array([s.m_tiles for s in shapes], dtype=np.float64) * um
    n = np.array([s.n_tiles for s in shapes], dtype=np.float64) * un
    layout = np.array([LAYOUTS.index(s.layout) for s in shapes], dtype=np.float64)
    a_bytes, b_bytes, c_bytes = (size * _ITEM_BYTES for size in (k * m, k * n, m * n))
    columns = [
        np.log2(k),
        np.log2(m),
        np.log2(n),
        np.log2(a_bytes),
        np.log2(b_bytes),
        np.log2(c_bytes),
        np.log2(a_bytes + b_bytes + c_bytes),
        # What must stay in a near cache for A to be found there by the next column of tiles.
        np.log2(a_bytes + k * un * _ITEM_BYTES),
        np.log2(m / um * n / un),
        layout,
        # What a dot kernel does element by element; no table has it, but it explains samples.
        k % candidate.lanes if candidate.tile.family == "dot" else np.zeros_like(k),
    ]
    return np.stack(columns, axis=1)
