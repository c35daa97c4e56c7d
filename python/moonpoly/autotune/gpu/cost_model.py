"""The cost of a launch: one XGBoost regression for each micro-kernel, tabulated for the selector.

On a GPU a task is a tile, its processing units are the slots that the GPU holds at once, and tasks
share the memory system so much that the launch is what can be measured. A line explains most of
it: a fixed part and, for each wave, a fixed part and one for each step of k. The trees learn the
logarithm of what is left. The blocks that share a tile's reduction add a cost of their own.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import xgboost

from moonpoly.error import TuneError

# The table's axes: k of a block, and tiles in units of what the GPU holds at once. Loads above 1
# are whole waves.
GRID: dict[str, list[float]] = {
    "k": [16, 64, 128, 256, 512, 1024, 2048, 4096, 8192, 16384],
    "load": [0.01, 0.125, 0.25, 0.5, 0.75, 1, 2, 3, 4, 8, 32],
}
CLUSTERS = (1, 2, 4, 8)

_ROUNDS = 150
_PARAMETERS = {
    "objective": "reg:squarederror",
    "max_depth": 4,
    "eta": 0.1,
    "min_child_weight": 2,
    "subsample": 0.9,
    "lambda": 1.0,
    "nthread": 1,
    "seed": 0,
}
_MIN_SAMPLES = 12
_DIGITS = 4


@dataclass(frozen=True)
class LaunchSample:
    """One measured launch.

    Parameters
    ----------
    k
        Elements of k that a block reduces.
    load
        Blocks in units of what the GPU holds at once.
    aspect
        Tiles along m over tiles along n.
    cluster, slices
        How the reduction was cut.
    us
        Microseconds of the launch, the gap to the next included.
    """

    k: float
    load: float
    aspect: float
    cluster: int
    slices: int
    us: float


@dataclass(frozen=True)
class LaunchCosts:
    """The fitted costs of one micro-kernel's launches.

    Parameters
    ----------
    line
        Microseconds of a launch, of a wave, and of a wave for each element of k.
    trees
        The regression of the logarithm of cost / line.
    cluster_us
        What adding up in clusters of 1, 2, 4 and 8 blocks takes more.
    slices_us, slice_us
        What adding up in memory takes more: at all, and for each slice.
    """

    line: tuple[float, float, float]
    trees: xgboost.Booster
    cluster_us: tuple[float, ...]
    slices_us: float
    slice_us: float

    def launch_us(self, k: np.ndarray, load: np.ndarray, aspect: np.ndarray) -> np.ndarray:
        """Return the predicted microseconds of launches that don't cut the reduction, float64."""
        line = _design(k, load) @ np.array(self.line)
        residual = self.trees.predict(xgboost.DMatrix(_features(k, load, aspect)))
        return line * np.exp(residual.astype(np.float64))

    def table(self) -> dict[str, Any]:
        """Return the costs on :data:`GRID` flattened as [k][load], and those of cut reductions.

        Costs fall neither with k nor with the load, whatever the noise of the samples.
        """
        k, load = np.meshgrid(GRID["k"], GRID["load"], indexing="ij")
        costs = self.launch_us(k.ravel(), load.ravel(), np.ones(k.size)).reshape(k.shape)
        rising = np.maximum.accumulate(np.maximum.accumulate(costs, axis=0), axis=1)
        return {
            "us": [_short(cost) for cost in rising.ravel()],
            "cluster_us": [_short(cost) for cost in self.cluster_us],
            "slices_us": _short(self.slices_us),
            "slice_us": _short(self.slice_us),
        }


def fit(name: str, samples: Sequence[LaunchSample]) -> LaunchCosts:
    """Fit the costs of one micro-kernel to its samples.

    Raises
    ------
    TuneError
        If there are too few samples of whole reductions.
    """
    plain = [s for s in samples if s.cluster == s.slices == 1]
    if len(plain) < _MIN_SAMPLES:
        raise TuneError(
            f"{name} has {len(plain)} cost samples, expected {_MIN_SAMPLES} or more; sample again"
        )
    k, load, aspect, us = (
        np.array([getattr(s, field) for s in plain], dtype=np.float64)
        for field in ("k", "load", "aspect", "us")
    )
    line = _line(k, load, us)
    residual = np.log(us / (_design(k, load) @ np.array(line)))
    data = xgboost.DMatrix(_features(k, load, aspect), label=residual)
    trees = xgboost.train(_PARAMETERS, data, num_boost_round=_ROUNDS)
    costs = LaunchCosts(line, trees, (0.0,) * len(CLUSTERS), 0.0, 0.0)
    return _with_cuts(costs, samples)


def _with_cuts(costs: LaunchCosts, samples: Sequence[LaunchSample]) -> LaunchCosts:
    """Add what cut reductions take beyond a launch of as many blocks with as short a reduction."""
    extra: dict[tuple[int, int], list[float]] = {}
    for s in samples:
        if s.cluster > 1 or s.slices > 1:
            whole = costs.launch_us(np.array([s.k]), np.array([s.load]), np.array([s.aspect]))
            extra.setdefault((s.cluster, s.slices), []).append(s.us - float(whole[0]))
    cluster_us = [0.0]
    for cluster in CLUSTERS[1:]:
        found = extra.get((cluster, 1))
        cluster_us.append(max(cluster_us[-1], float(np.median(found)) if found else 0.0))
    by_cluster = dict(zip(CLUSTERS, cluster_us, strict=True))
    points = [
        (slices, more - by_cluster[cluster])
        for (cluster, slices), found in extra.items()
        if slices > 1
        for more in found
    ]
    slices_us, slice_us = _slices(points)
    return LaunchCosts(costs.line, costs.trees, tuple(cluster_us), slices_us, slice_us)


def _slices(points: Sequence[tuple[int, float]]) -> tuple[float, float]:
    if len({slices for slices, _ in points}) < 2:
        return max(0.0, float(np.median([y for _, y in points]))) if points else 0.0, 0.0
    slope, start = np.polyfit([x for x, _ in points], [y for _, y in points], 1)
    return max(0.0, float(start)), max(0.0, float(slope))


def _line(k: np.ndarray, load: np.ndarray, us: np.ndarray) -> tuple[float, float, float]:
    """Fit with equal weight for equal relative error; no part below zero."""
    design = _design(k, load) / us[:, None]
    parts, *_ = np.linalg.lstsq(design, np.ones_like(us), rcond=None)
    floor = float(us.min())
    launch, wave, step = (float(part) for part in parts)
    return max(launch, 0.2 * floor), max(wave, 0.01 * floor), max(step, 1e-6)


def _design(k: np.ndarray, load: np.ndarray) -> np.ndarray:
    waves = np.ceil(load)
    return np.stack([np.ones_like(k, dtype=np.float64), waves, waves * k], axis=1)


def _features(k: np.ndarray, load: np.ndarray, aspect: np.ndarray) -> np.ndarray:
    waves = np.ceil(load)
    columns = [
        np.log2(k),
        np.log2(load),
        waves,
        # How full the last wave is.
        load - waves + 1,
        np.log2(aspect),
        np.log2(k * load),
    ]
    return np.stack(columns, axis=1)


def _short(value: float) -> float:
    return float(f"{value:.{_DIGITS}g}")


def tables(costs: Mapping[str, LaunchCosts]) -> dict[str, dict[str, Any]]:
    """Return the tables of several micro-kernels by name."""
    return {name: fitted.table() for name, fitted in costs.items()}


def log_uniform(rng: np.random.Generator, low: float, high: float) -> float:
    """Draw a number evenly in its logarithm."""
    return math.exp(rng.uniform(math.log(low), math.log(high)))
