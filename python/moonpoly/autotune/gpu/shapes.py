"""Shapes that launches are recorded on: drawn of every kind, and over one kernel's own range.

None is taken from any list that is measured elsewhere.
"""

from __future__ import annotations

import random
from collections.abc import Iterable
from itertools import product
from typing import TypeAlias

from moonpoly.autotune.gpu.launch import Launch
from moonpoly.autotune.gpu.program import TileConfig
from moonpoly.autotune.gpu.sample import shaped
from moonpoly.tir_templates.items import ALIGNED_BYTES, ITEMS, OUTPUT_BYTES, contiguous_access
from moonpoly.workload import Workload

Shape: TypeAlias = tuple[int, int, int]

_LINE_BYTES = 128
_SMALLEST, _LARGEST = 1 << 16, 1 << 38  # operations
_MOST_OUTPUTS = 1 << 28
# Extents of m, n and k, from and to: all kinds, thin outputs, long reductions, short ones, models,
# vectors.
_KINDS = (
    ((1, 16_384), (1, 16_384), (8, 16_384)),
    ((512, 50_000), (1, 128), (16, 8_192)),
    ((1, 128), (512, 50_000), (16, 8_192)),
    ((1, 512), (1, 512), (2_048, 500_000)),
    ((256, 20_000), (64, 8_192), (8, 128)),
    ((1, 4_096), (256, 8_192), (256, 8_192)),
    ((1, 1), (64, 20_000), (64, 16_384)),
    ((64, 20_000), (1, 1), (64, 16_384)),
)
# A kernel's own range: reduction lengths in bytes, and tiles in units of what the GPU holds.
_RANGE_BYTES = tuple(64 * 4**i for i in range(5))
_RANGE_LOADS = (0.03, 0.3, 1.0, 3.0, 12.0)
# What rows are longer than multiples of 16 bytes by, in items, for kernels that load such.
_BEYOND = {"residue": 6, "direct": 3, "strided": 5}


def drawn_shapes(count: int, seed: int, aligned: int = 8) -> list[Shape]:
    """Return distinct shapes (m, n, k) of every kind in turn; fewer are the first of more.

    Three of four have rows of A and B, and of C, that are multiples of ``aligned`` items. Half of
    those have rows of A and B that are whole lines of the cache, as models mostly do.
    """
    rng = random.Random(f"record {seed}")
    shapes: dict[Shape, None] = {}
    while len(shapes) < count:
        extents = _KINDS[len(shapes) % len(_KINDS)]
        m, n, k = (round(low * (high / low) ** rng.random()) for low, high in extents)
        if rng.random() < 0.75:
            unit = rng.choice((aligned, aligned * _LINE_BYTES // ALIGNED_BYTES))
            k = -(-k // unit) * unit
        if rng.random() < 0.75:
            n = -(-n // aligned) * aligned
        if _SMALLEST <= 2 * m * n * k <= _LARGEST and m * n < _MOST_OUTPUTS:
            shapes[m, n, k] = None
    return list(shapes)


def range_shapes(config: TileConfig, num_sms: int) -> list[Shape]:
    """Return shapes of whole tiles over the reduction lengths and loads that a kernel may have."""
    shapes: dict[Shape, None] = {}
    for number, (num_bytes, load) in enumerate(product(_RANGE_BYTES, _RANGE_LOADS)):
        k, slots = num_bytes // config.item.bytes, config.blocks * num_sms
        launch = (
            _vector(config, slots, k, load)
            if config.loads == "gemv"
            else shaped(config, slots, k, load, 1.0)
        )
        if launch is not None:
            beyond = _BEYOND.get(config.loads, 0) * (number % 2)
            shapes[launch.m, launch.n, launch.k + beyond] = None
    return list(shapes)


def _vector(config: TileConfig, slots: int, k: int, load: float) -> Launch:
    """Return a product of one row or column, which ``shaped`` has none of."""
    m, n = (
        1 if side == 1 else side * max(1, round(load * slots)) for side in (config.um, config.un)
    )
    return Launch(m, n, k)


def access_of(shape: Shape, dtype: str) -> str:
    """Return how contiguous operands of a product can be read."""
    m, n, k = shape
    # A single row begins where the allocation does.
    return "tma" if max(m, n) == 1 else contiguous_access(k, ITEMS[dtype].aligned)


def operand_bytes(shapes: Iterable[Shape], workload: Workload) -> int:
    """Return the bytes of the largest operand or result of products of contiguous rows."""
    item, output = ITEMS[workload.dtype].bytes, OUTPUT_BYTES[workload.out_dtype]
    return max(max(item * m * k, item * n * k, output * m * n) for m, n, k in shapes)
