"""Choose the kernels to keep: the set that runs synthetic shapes best, not the best kernels.

The method is the paper's (rank on shapes that are powers of two, without any model's shapes), with
the set as the unit: kernels are added one at a time, each time the one that most lowers the summed
relative cost of the best plans. Powers of two alone would never need a row remainder, so each comes
with a neighbour that does. A low kernel is then kept because it makes remainders cheap.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from moonpoly.autotune.candidates import Candidate
from moonpoly.autotune.sample import TaskShape, dot_share

# µs of one task of candidate `index` in calls of the given shapes.
TaskCosts = Callable[[int, Sequence[TaskShape]], np.ndarray]

_SMALL = tuple(range(1, 17))
_LARGE = tuple(2**i for i in range(5, 13))
# A constant B is packed when a model is compiled; most are.
_LAYOUTS = ("packed", "packed", "packed", "row", "row", "transposed")
_REDUCTIONS = (16, 64, 256, 1024, 4096)
_MAX_OPERATIONS = 2**32
_SEED = 7
# A kernel is worth its place in every selection's loop only if it gains this much.
_MIN_GAIN = 2e-4


@dataclass(frozen=True)
class SyntheticShape:
    """One shape to rank on, and how B is given.

    Parameters
    ----------
    m, n, k
        The problem shape.
    layout
        ``"packed"``, ``"row"`` (row-major) or ``"transposed"`` (contiguous along k).
    """

    m: int
    n: int
    k: int
    layout: str


@dataclass(frozen=True)
class Ranking:
    """The kept candidates, best first, and what each left of the cost.

    Parameters
    ----------
    kept
        Indices of candidates.
    loss
        After each, the mean cost of the best plans over that with all candidates.
    """

    kept: tuple[int, ...]
    loss: tuple[float, ...]


def synthetic_shapes(count: int = 600) -> tuple[SyntheticShape, ...]:
    """Return the shapes that kernels are ranked on: powers of two, their neighbours, small sides.

    A fixed draw of ``count`` from all combinations, so that a ranking can be repeated.
    """
    rng = np.random.default_rng(_SEED)

    def side() -> int:
        kind = rng.integers(3)
        if kind == 0:
            return int(rng.choice(_SMALL))
        size = int(rng.choice(_LARGE))
        return size if kind == 1 else size + int(rng.integers(1, size))

    shapes: list[SyntheticShape] = []
    while len(shapes) < count:
        m, n, k = side(), side(), int(rng.choice(_REDUCTIONS))
        layout = _LAYOUTS[len(shapes) % len(_LAYOUTS)]
        if 2 * m * n * k <= _MAX_OPERATIONS:
            shapes.append(SyntheticShape(m, n, k, layout))
    return tuple(shapes)


def rank(
    candidates: Sequence[Candidate],
    task_costs: TaskCosts,
    shapes: Sequence[SyntheticShape],
    max_kept: int,
    pack_us_per_kb: float,
) -> Ranking:
    """Return the set of at most ``max_kept`` candidates found by adding the best one each time.

    Parameters
    ----------
    candidates
        What to choose from.
    task_costs
        Predicted µs of a task.
    shapes
        What to be good at.
    max_kept
        The size of the set; fewer are kept when none of the others helps.
    pack_us_per_kb
        What an outer kernel pays for packing a transposed B.
    """
    costs = plan_costs(candidates, task_costs, shapes, pack_us_per_kb)
    all_best = costs.min(axis=(1, 2))
    relative = costs / all_best[:, None, None]
    # A single kernel must be able to run every shape from the start on.
    best = np.full(len(shapes), np.inf)
    kept: list[int] = []
    loss: list[float] = []
    while len(kept) < min(max_kept, len(candidates)):
        trial = np.full((len(shapes), len(candidates)), np.inf)
        for index in range(len(candidates)):
            if index in kept:
                continue
            members = [*kept, index]
            trial[:, index] = np.minimum(
                relative[:, index, members].min(axis=1), relative[:, members, index].min(axis=1)
            )
        # Shapes that no kernel covers yet weigh alike for all and far more than any gain.
        totals = np.minimum(np.minimum(trial, best[:, None]), 1e3).mean(axis=0)
        totals[kept] = np.inf
        index = int(np.argmin(totals))
        if loss and loss[-1] - totals[index] < _MIN_GAIN:
            break
        kept.append(index)
        loss.append(float(totals[index]))
        best = np.minimum(best, trial[:, index])
    return Ranking(tuple(kept), tuple(loss))


def plan_costs(
    candidates: Sequence[Candidate],
    task_costs: TaskCosts,
    shapes: Sequence[SyntheticShape],
    pack_us_per_kb: float,
) -> np.ndarray:
    """Return the µs of the best two-kernel plan, float64 of shape (shapes, first, second).

    The first kernel takes the whole tiles along m or n, the second what is left (the better cut of
    the two); with one kernel for both, the rest is padded. One processing unit, patterns I and II.
    """
    num = len(candidates)
    costs = np.full((len(shapes), num, num), np.inf)
    grid = _RegionCosts(candidates, task_costs, pack_us_per_kb)
    for first, one in enumerate(candidates):
        whole = grid.region(first, [(s, s.m, s.n) for s in shapes])
        costs[:, first, first] = whole
        um, un = one.tile.um, one.tile.un
        cut_m = [(i, s, s.m // um * um) for i, s in enumerate(shapes) if s.m % um and s.m > um]
        cut_n = [(i, s, s.n // un * un) for i, s in enumerate(shapes) if s.n % un and s.n > un]
        top = grid.region(first, [(s, at, s.n) for _, s, at in cut_m])
        left = grid.region(first, [(s, s.m, at) for _, s, at in cut_n])
        for second in range(num):
            bottom = grid.region(second, [(s, s.m - at, s.n) for _, s, at in cut_m])
            right = grid.region(second, [(s, s.m, s.n - at) for _, s, at in cut_n])
            for rows, total in ((cut_m, top + bottom), (cut_n, left + right)):
                where = [i for i, _, _ in rows]
                costs[where, first, second] = np.minimum(costs[where, first, second], total)
    return costs


class _RegionCosts:
    """Costs of regions, each distinct one predicted once."""

    def __init__(
        self, candidates: Sequence[Candidate], task_costs: TaskCosts, pack_us_per_kb: float
    ) -> None:
        self._candidates = candidates
        self._task_costs = task_costs
        self._pack_us_per_kb = pack_us_per_kb
        self._known: dict[tuple[int, TaskShape], float] = {}

    def region(self, index: int, regions: Sequence[tuple[SyntheticShape, int, int]]) -> np.ndarray:
        """Return the µs of one kernel on each region (shape, rows, columns), inf where illegal."""
        tile = self._candidates[index].tile
        keys, tasks, extra = [], [], []
        for shape, rows, columns in regions:
            m_tiles, n_tiles = -(-rows // tile.um), -(-columns // tile.un)
            keys.append((index, self._share(tile.family, shape, m_tiles, n_tiles)))
            tasks.append(m_tiles * n_tiles)
            extra.append(self._extra_us(tile.family, shape, columns))
        missing = list(dict.fromkeys(key for key in keys if key not in self._known))
        if missing:
            shares = [share for _, share in missing]
            for key, cost in zip(missing, self._task_costs(index, shares), strict=True):
                self._known[key] = float(cost)
        return np.array(
            [
                self._known[key] * count + more
                for key, count, more in zip(keys, tasks, extra, strict=True)
            ]
        )

    @staticmethod
    def _share(family: str, shape: SyntheticShape, m_tiles: int, n_tiles: int) -> TaskShape:
        if family == "dot":
            return dot_share(shape.k, m_tiles, n_tiles)
        return TaskShape(shape.k, m_tiles, n_tiles, shape.n, packed=shape.layout != "row")

    def _extra_us(self, family: str, shape: SyntheticShape, columns: int) -> float:
        if family == "dot":
            # A constant thin B is kept contiguous along k; any other B is not.
            thin = shape.layout == "packed" and shape.n <= self._candidates[0].lanes // 2
            return 0.0 if shape.layout == "transposed" or thin else np.inf
        if shape.layout == "transposed":
            return self._pack_us_per_kb * shape.k * columns * 4 / 1024
        return 0.0
