"""Choose the kernels to keep: the set that runs synthetic shapes best, not the best kernels.

Kernels are added one at a time, each time the one that most lowers the mean logarithm of the best
plans' costs. No model's shape is known here: extents are drawn evenly in their logarithm, a share
of them large enough for arithmetic to be the limit, and some operands are such that TMA can't load
them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product

import numpy as np

from moonpoly.autotune.gpu.cost_model import CLUSTERS, LaunchCosts, log_uniform
from moonpoly.autotune.rank import Ranking
from moonpoly.schedules.cuda import MAX_SLICES
from moonpoly.tir_templates.wgmma.config import WgmmaConfig

# How the operands lie, and what can load them so.
_SERVES = {
    "aligned": ("tma", "async", "residue", "direct", "strided"),
    "odd": ("residue", "direct", "strided"),
    "transposed": ("strided",),
}
_SHARES = {"aligned": 0.72, "odd": 0.22, "transposed": 0.06}
# Lowest and highest m and n, and k: of any product, and of one that keeps every unit busy.
_EXTENTS = ((1, 20000), (8, 30000))
_LARGE_EXTENTS = ((256, 12000), (256, 12000))
_LARGE_SHARE = 0.35
_MAX_OPERATIONS = 2.0**40
_MAX_ITEMS = 2.0**28
_SEED = 7
_MIN_GAIN = 1e-4
# The logarithm of a plan's cost where there is none yet: any kernel is better.
_NO_PLAN = 30.0


@dataclass(frozen=True)
class Contender:
    """A kernel that may be kept.

    Parameters
    ----------
    config
        Its tile.
    costs
        Its fitted costs.
    slots
        Blocks of it that the GPU holds at once.
    """

    config: WgmmaConfig
    costs: LaunchCosts
    slots: int


@dataclass(frozen=True)
class SyntheticShapes:
    """Shapes to rank on, as columns: extents, float64, and how the operands lie."""

    m: np.ndarray
    n: np.ndarray
    k: np.ndarray
    layout: np.ndarray


def synthetic_shapes(count: int = 1500) -> SyntheticShapes:
    """Return a fixed draw of ``count`` shapes."""
    rng = np.random.default_rng(_SEED)
    rows: list[tuple[float, float, float, str]] = []
    while len(rows) < count:
        sides, depth = _LARGE_EXTENTS if rng.random() < _LARGE_SHARE else _EXTENTS
        m, n = (round(log_uniform(rng, *sides)) for _ in range(2))
        k = round(log_uniform(rng, *depth))
        layout = str(rng.choice(list(_SHARES), p=list(_SHARES.values())))
        if layout == "aligned":
            k = -(-k // 8) * 8
        if 2.0 * m * n * k <= _MAX_OPERATIONS and max(m * k, n * k, m * n) <= _MAX_ITEMS:
            rows.append((m, n, k, layout))
    extents = np.array([row[:3] for row in rows], dtype=np.float64)
    return SyntheticShapes(
        extents[:, 0], extents[:, 1], extents[:, 2], np.array([row[3] for row in rows])
    )


def rank(contenders: Sequence[Contender], shapes: SyntheticShapes, max_kept: int) -> Ranking:
    """Return the set of at most ``max_kept`` contenders found by adding the best one each time."""
    return _rank(_logs(contenders, shapes), max_kept)


def shortlist(
    contenders: Sequence[Contender], shapes: SyntheticShapes, max_kept: int
) -> tuple[int, ...]:
    """Return at most ``max_kept`` contenders to look at more closely, the most useful first.

    They are the set that :func:`rank` keeps, the set that it keeps of the rest, and so on: where
    costs are a little wrong, one of the next best is the best.
    """
    logs = _logs(contenders, shapes)
    left, listed = list(range(len(contenders))), list[int]()
    while left and len(listed) < max_kept:
        ranking = _rank(logs[left], max_kept - len(listed))
        best = [left[index] for index in ranking.kept]
        listed += best
        left = [index for index in left if index not in best]
    return tuple(listed)


def _logs(contenders: Sequence[Contender], shapes: SyntheticShapes) -> np.ndarray:
    """Return the logarithms of the best plans' costs, contenders by shapes."""
    logs = np.stack([np.log(plan_us(one, shapes)) for one in contenders])
    return np.where(np.isfinite(logs), logs, _NO_PLAN)


def _rank(logs: np.ndarray, max_kept: int) -> Ranking:
    ideal = logs.min(axis=0)
    best = np.full(logs.shape[1], _NO_PLAN)
    kept: list[int] = []
    loss: list[float] = []
    while len(kept) < min(max_kept, len(logs)):
        totals = np.minimum(logs, best).mean(axis=1)
        totals[kept] = np.inf
        index = int(np.argmin(totals))
        if kept and np.mean(best) - totals[index] < _MIN_GAIN:
            break
        kept.append(index)
        best = np.minimum(best, logs[index])
        loss.append(float(np.exp(np.mean(best - ideal))))
    return Ranking(tuple(kept), tuple(loss))


def plan_us(one: Contender, shapes: SyntheticShapes) -> np.ndarray:
    """Return the microseconds of a kernel's best plan for each shape, inf where it has none."""
    config, costs = one.config, one.costs
    m_tiles, n_tiles = np.ceil(shapes.m / config.um), np.ceil(shapes.n / config.un)
    aspect = np.clip(m_tiles / n_tiles, 1 / 16, 16)
    best = np.full(len(shapes.m), np.inf)
    clusters = CLUSTERS if config.split else (1,)
    slices = [2**i for i in range(MAX_SLICES.bit_length())] if config.slices else [1]
    for cluster, count in product(clusters, slices):
        k = shapes.k / (cluster * count)
        load = m_tiles * n_tiles * cluster * count / one.slots
        us = costs.launch_us(np.maximum(k, 8), np.maximum(load, 1 / one.slots), aspect)
        us = us + costs.cluster_us[CLUSTERS.index(cluster)]
        if count > 1:
            us = us + costs.slices_us + costs.slice_us * count
        # A block with less than one step only adds up.
        us = np.where((cluster * count > 1) & (k < config.step), np.inf, us)
        best = np.minimum(best, us)
    served = [layout for layout, loads in _SERVES.items() if config.loads in loads]
    return np.where(np.isin(shapes.layout, served), best, np.inf)
