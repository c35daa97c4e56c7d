"""Time a compiled micro-kernel on one processing unit, as the selector will use it.

A call covers ``m_tiles`` x ``n_tiles`` tiles through a whole reduction of k steps; what is sampled
is its time divided by the number of tiles: the latency of one task. Operands are the same from
call to call, so they lie in whatever cache holds them, as a model's weights do.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import tvm
import tvm_ffi

from moonpoly.autotune.candidates import Candidate
from moonpoly.autotune.measure import huge_array

_ITEM_BYTES = 4
_REPEATS = 3

# What a sample may cost: this bounds the time of one call to a few milliseconds.
_MAX_OPERATIONS = 6e8
_MAX_BYTES = 96 << 20
_MAX_K, _MAX_M_TILES, _MAX_N_TILES = 20000, 96, 320

# Rows that are a multiple of this many elements apart share one set of the first cache: a tile's
# rows of B then evict each other, and so would rows of A. Measured two to three times slower.
ALIASING_ITEMS = 1024

# Rows of a row-major B are rows of whole tensors: these widths are common in models.
_COMMON_WIDTHS = (512, 768, 1000, 1280, 1536, 2560, 4000, 4608, 7680)
_ALIASED_WIDTHS = tuple(ALIASING_ITEMS * factor for factor in (1, 2, 3, 4, 8))
_LINE_ITEMS = 16


@dataclass(frozen=True)
class TaskShape:
    """What a task's cost depends on.

    Parameters
    ----------
    k
        Steps of the reduction.
    m_tiles, n_tiles
        Tiles that one call covers.
    row_stride
        Elements from one row of B to the next where B is row-major; 0 where it is packed (or
        contiguous along k, for dot kernels).
    """

    k: int
    m_tiles: int
    n_tiles: int
    row_stride: int = 0

    @property
    def layout(self) -> str:
        """How B lies: ``"packed"``, ``"strided"``, or ``"aliased"`` in one cache set."""
        if not self.row_stride:
            return "packed"
        return "strided" if self.row_stride % ALIASING_ITEMS else "aliased"


def plan_samples(candidate: Candidate, count: int, seed: int) -> Iterator[TaskShape]:
    """Yield ``count`` shapes to sample, spread evenly in the logarithm of each axis.

    Half of outer kernels' samples have a row-major B, less than half of these an aliased one.
    """
    rng = np.random.default_rng(seed)
    tile = candidate.tile
    left = count
    while left:
        k = _log_uniform(rng, 1, _MAX_K)
        # Calls of a single row or column of tiles are the commonest, and the corner of the model.
        m_tiles = 1 if rng.random() < 0.35 else _log_uniform(rng, 1, _MAX_M_TILES)
        n_tiles = 1 if rng.random() < 0.15 else _log_uniform(rng, 1, _MAX_N_TILES)
        m, n = m_tiles * tile.um, n_tiles * tile.un
        row_stride = 0
        if tile.family == "outer" and rng.random() < 0.5:
            row_stride = _row_stride(rng, n)
        shape = TaskShape(k, m_tiles, n_tiles, row_stride)
        b_bytes = k * (row_stride or n) * _ITEM_BYTES
        if 2 * m * n * k <= _MAX_OPERATIONS and b_bytes + m * k * _ITEM_BYTES <= _MAX_BYTES:
            left -= 1
            yield shape


def task_us(
    module: tvm.runtime.Module, candidate: Candidate, shape: TaskShape, min_ms: float
) -> float:
    """Return the median microseconds of one task of ``candidate`` in a call of ``shape``.

    ``module`` exports the kernel under its name; about ``min_ms`` are spent measuring.
    """
    arguments = _operands(candidate, shape)
    module[candidate.name](*arguments)
    # TVM's evaluator repeats the call in C++: a call from Python costs as much as a small task.
    probe = module.time_evaluator(candidate.name, tvm.cpu(), number=1, repeat=2)
    once_ms = min(probe(*arguments).results) * 1e3
    number = max(1, math.ceil(min_ms / _REPEATS / max(once_ms, 1e-5)))
    timer = module.time_evaluator(candidate.name, tvm.cpu(), number=number, repeat=_REPEATS)
    seconds = float(np.median(timer(*arguments).results))
    return seconds * 1e6 / (shape.m_tiles * shape.n_tiles)


def _operands(candidate: Candidate, shape: TaskShape) -> tuple[tvm_ffi.Tensor, ...]:
    """Return A, B, C and accumulate = 0."""
    tile, lanes, k = candidate.tile, candidate.lanes, shape.k
    m, n = shape.m_tiles * tile.um, shape.n_tiles * tile.un
    # Rows of A that share a cache set slow down every kernel alike and would put bumps in the
    # model at single values of k.
    a_stride = k + _LINE_ITEMS if k % ALIASING_ITEMS == 0 else k
    a = _view(_memory("a"), (m, k), (a_stride, 1))
    c = _view(_memory("c"), (m, n), (n, 1))
    if tile.family == "dot":
        b = _view(_memory("b"), (n, k), (k, 1))
    elif shape.row_stride:
        b = _view(_memory("b"), (n // lanes, k, lanes), (lanes, shape.row_stride, 1))
    else:
        b = _view(_memory("b"), (n // lanes, k, lanes), (k * lanes, lanes, 1))
    return a, b, c, 0


@functools.cache
def _memory(_operand: str) -> np.ndarray:
    return huge_array(_MAX_BYTES // _ITEM_BYTES + 2 * _MAX_K)


def _view(memory: np.ndarray, shape: tuple[int, ...], strides: tuple[int, ...]) -> tvm_ffi.Tensor:
    steps = tuple(stride * _ITEM_BYTES for stride in strides)
    return tvm_ffi.from_dlpack(np.lib.stride_tricks.as_strided(memory, shape, steps))


def _row_stride(rng: np.random.Generator, n: int) -> int:
    """Return a row stride that holds ``n`` columns: aliased, common, or just wide enough."""
    aliased = [width for width in _ALIASED_WIDTHS if width >= n]
    if aliased and rng.random() < 0.4:
        return int(rng.choice(aliased))
    common = [width for width in _COMMON_WIDTHS if width >= n]
    if common and rng.random() < 0.5:
        return int(rng.choice(common[:4]))
    return n if n % ALIASING_ITEMS else n + _LINE_ITEMS


def _log_uniform(rng: np.random.Generator, low: int, high: int) -> int:
    return round(math.exp(rng.uniform(math.log(low), math.log(high))))
