"""What is sampled of a micro-kernel: shares of a region, from a single tile to more than a cache.

A share is ``m_tiles`` x ``n_tiles`` tiles through a whole reduction of k steps, the part of a
region that one processing unit gets. Its time divided by the number of tiles is the cost of a task.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from moonpoly.autotune.candidates import Candidate
from moonpoly.schedules import Tile

ITEM_BYTES = 4
# Rows that are a multiple of this many elements apart share one set of the first cache: a tile's
# rows of B then evict each other, and so would rows of A. Measured two to three times slower.
ALIASING_ITEMS = 1024
LINE_ITEMS = 16

# Enough for the trees to place every cache; forty kernels take less than two minutes.
NEAR_SAMPLES, FAR_SAMPLES, LARGE_SAMPLES = 500, 180, 8
_SEED = 23

# What a sample may cost: this bounds the time of a share to a few milliseconds, and that of the few
# large ones to ten.
_MAX_OPERATIONS, _MAX_LARGE_OPERATIONS = 4e8, 2.4e9
# Of one operand of one processing unit; all of them together are more than a last cache.
MAX_BYTES = 64 << 20
_MAX_M, _MAX_N, _MAX_K = 60_000, 40_000, 200_000
_MAX_TILES = 500

# Rows of a row-major B are rows of whole tensors: these widths are common in models.
_COMMON_WIDTHS = (512, 768, 1280, 1536, 2560, 4608, 7680)
_ALIASED_WIDTHS = tuple(ALIASING_ITEMS * factor for factor in (1, 2, 3, 4, 8))


@dataclass(frozen=True)
class TaskShape:
    """What a task's cost depends on.

    Parameters
    ----------
    k
        Steps of the reduction.
    m_tiles, n_tiles
        Tiles of the share.
    row_stride
        Elements from one row of C, and of a row-major B, to the next; 0 where they are as long as
        the tiles are wide. For dot kernels, whose A and B are contiguous along k: k, where it is
        not a plain multiple of a cache line, else 0.
    packed
        Whether an outer kernel's B lies in panels.
    """

    k: int
    m_tiles: int
    n_tiles: int
    row_stride: int = 0
    packed: bool = True

    @property
    def layout(self) -> str:
        """How B and the rows of C lie.

        ``"strided"``: B is row-major; ``"aliased"``: and rows share one cache set;
        ``"unaligned"``: or start within cache lines. ``"packed"``, ``"packed_aliased"`` and
        ``"packed_unaligned"``: B is in panels, and this is how rows of C lie.
        """
        kind = row_kind(self.row_stride)
        if not self.packed:
            return kind or "strided"
        return f"packed_{kind}" if kind else "packed"

    def num_bytes(self, tile: Tile) -> int:
        """Return the bytes of the share's parts of A, B and C."""
        m, n = self.m_tiles * tile.um, self.n_tiles * tile.un
        return (m * self.k + self.k * n + m * n) * ITEM_BYTES


def row_kind(row_stride: int) -> str:
    """Return ``"aliased"``, ``"unaligned"`` or, for rows that are neither, ``""``."""
    if row_stride % LINE_ITEMS:
        return "unaligned"
    return "aliased" if row_stride and row_stride % ALIASING_ITEMS == 0 else ""


def plan_samples(candidate: Candidate, own_cache_bytes: int) -> list[TaskShape]:
    """Return the shares that a kernel's model is fitted to: near, far and large."""
    near = near_samples(candidate, NEAR_SAMPLES, own_cache_bytes, _SEED)
    far = far_samples(candidate, FAR_SAMPLES, own_cache_bytes, _SEED)
    return [*near, *far, *large_samples(candidate, LARGE_SAMPLES, _SEED)]


def near_samples(
    candidate: Candidate, count: int, own_cache_bytes: int, seed: int
) -> Iterator[TaskShape]:
    """Yield ``count`` shares that fit half of a unit's own cache, even in the logarithm of k.

    Given k, the tiles along one axis are even in their logarithm as far as they fit, then those
    along the other: were k drawn with them, few long reductions would be left of those that fit.
    Half of outer kernels' samples have a row-major B, and most have rows that start within cache
    lines, as those of most shapes do; half of dot kernels' samples have whole vectors of k.
    """
    rng = np.random.default_rng(seed)
    tile = candidate.tile
    most_items = own_cache_bytes // 2 // ITEM_BYTES
    longest = (most_items - tile.um * tile.un) // (tile.um + tile.un)
    left = count
    while left:
        # Reductions of a few steps are rare, but a corner of the model.
        k = _log_uniform(rng, 1, 8) if rng.random() < 0.15 else _log_uniform(rng, 8, longest)
        # Tiles along each axis that fit where there is a single one along the other.
        fits_m = (most_items - k * tile.un) // (tile.um * (k + tile.un))
        fits_n = (most_items - k * tile.um) // (tile.un * (k + tile.um))
        # Shares of a single row or column of tiles are common, and the corner of the model.
        m_tiles = 1 if rng.random() < 0.35 else _log_uniform(rng, 1, min(_MAX_TILES, fits_m))
        n_tiles = 1 if rng.random() < 0.15 else _log_uniform(rng, 1, min(_MAX_TILES, fits_n))
        shape = _share(rng, candidate, k, m_tiles, n_tiles)
        fits = shape.num_bytes(candidate.tile) <= own_cache_bytes / 2
        if fits and _spans(candidate, shape) <= MAX_BYTES:
            left -= 1
            yield shape


def far_samples(
    candidate: Candidate, count: int, own_cache_bytes: int, seed: int
) -> Iterator[TaskShape]:
    """Yield about ``count`` shares that leave a unit's own cache.

    They are the same problems for all kernels, in tiles of each: what memory does to one of them is
    then told apart from what a kernel does. Every other one is no more than eight times that cache,
    because costs change most there. Where a kernel's tiles make one too small or too large, it is
    left out.
    """
    rng = np.random.default_rng(seed)
    for index in range(count):
        most = 8 * own_cache_bytes if index % 2 else math.inf
        while True:
            m, n, k = _problem(rng)
            fits = own_cache_bytes / 2 < (m * k + k * n + m * n) * ITEM_BYTES <= most
            if fits and 2 * m * n * k <= _MAX_OPERATIONS:
                break
        yield from _in_tiles(rng, candidate, m, n, k, 4 * _MAX_OPERATIONS)


def large_samples(candidate: Candidate, count: int, seed: int) -> Iterator[TaskShape]:
    """Yield about ``count`` shares with more operations than the far ones.

    Without them a model would carry what memory does to small products over to large ones, which
    read each operand many times.
    """
    rng = np.random.default_rng(seed)
    for _ in range(count):
        while True:
            m, n, k = _problem(rng)
            if _MAX_OPERATIONS < 2 * m * n * k <= _MAX_LARGE_OPERATIONS:
                break
        yield from _in_tiles(rng, candidate, m, n, k, 1.5 * _MAX_LARGE_OPERATIONS)


def _problem(rng: np.random.Generator) -> tuple[int, int, int]:
    """Return m, n, k whose operands leave a quarter of an operand's memory for whole tiles."""
    while True:
        m, n, k = (_log_uniform(rng, 1, limit) for limit in (_MAX_M, _MAX_N, _MAX_K))
        if max(m * k, k * n, m * n) * ITEM_BYTES <= MAX_BYTES // 4 * 3:
            return m, n, k


def _in_tiles(
    rng: np.random.Generator, candidate: Candidate, m: int, n: int, k: int, most: float
) -> Iterator[TaskShape]:
    """Yield a problem as a share of whole tiles, unless that makes it too large."""
    tile = candidate.tile
    m_tiles, n_tiles = -(-m // tile.um), -(-n // tile.un)
    # Drawn for every kernel, so that the next problem is the same for all.
    draw = np.random.default_rng(rng.integers(1 << 31))
    shape = _share(draw, candidate, k, m_tiles, n_tiles)
    operations = 2 * m_tiles * tile.um * n_tiles * tile.un * k
    if operations <= most and _spans(candidate, shape) <= MAX_BYTES:
        yield shape


def _spans(candidate: Candidate, shape: TaskShape) -> int:
    """Return the bytes from the first item of the operand that spans most to its last."""
    m, n = shape.m_tiles * candidate.tile.um, shape.n_tiles * candidate.tile.un
    width = n if candidate.tile.family == "dot" else max(n, shape.row_stride)
    return max(m * shape.k, shape.k * width, m * width) * ITEM_BYTES


def _share(
    rng: np.random.Generator, candidate: Candidate, k: int, m_tiles: int, n_tiles: int
) -> TaskShape:
    """Return a share with a layout of B and C drawn for it."""
    if candidate.tile.family == "dot":
        # What is left of k after whole vectors is computed element by element: two kinds of k.
        if rng.random() < 0.5:
            k = -(-k // candidate.lanes) * candidate.lanes
        return dot_share(k, m_tiles, n_tiles)
    stride = _row_stride(rng, n_tiles * candidate.tile.un)
    return TaskShape(k, m_tiles, n_tiles, stride, packed=bool(rng.random() < 0.5))


def dot_share(k: int, m_tiles: int, n_tiles: int) -> TaskShape:
    """Return a share of a dot kernel, with how its rows of k elements lie."""
    kind = row_kind(k)
    return TaskShape(k, m_tiles, n_tiles, k if kind else 0, packed=not kind)


def _row_stride(rng: np.random.Generator, n: int) -> int:
    """Return a row stride that holds ``n`` columns."""
    kind = rng.random()
    aliased = [width for width in _ALIASED_WIDTHS if width >= n]
    if aliased and kind < 0.15:
        return int(rng.choice(aliased))
    common = [width for width in _COMMON_WIDTHS if width >= n]
    aligned = int(rng.choice(common[:4])) if common and rng.random() < 0.25 else n
    if kind < 0.5:
        return aligned if aligned % ALIASING_ITEMS else aligned + LINE_ITEMS
    return aligned + int(rng.integers(1, LINE_ITEMS))


def _log_uniform(rng: np.random.Generator, low: int, high: int) -> int:
    return round(math.exp(rng.uniform(math.log(low), math.log(high))))
