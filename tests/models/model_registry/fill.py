"""Random values for the inputs of a model, in the ranges that it was made for."""

from __future__ import annotations

import numpy as np

from .specification import Array, Fill, Shape, Sizes


def normal(rng: np.random.Generator, shape: Shape, sizes: Sizes) -> Array:
    """Numbers of mean 0 and variance 1."""
    return rng.standard_normal(shape)


def uniform(low: float, high: float) -> Fill:
    """Numbers from `low` to `high`."""
    return lambda rng, shape, sizes: rng.uniform(low, high, shape)


def integers(stop: int) -> Fill:
    """Integers from 0 to `stop`, exclusive."""
    return lambda rng, shape, sizes: rng.integers(0, stop, shape)


def zeros(rng: np.random.Generator, shape: Shape, sizes: Sizes) -> Array:
    """Zeros."""
    return np.zeros(shape)


def padding_mask(rng: np.random.Generator, shape: Shape, sizes: Sizes) -> Array:
    """Ones, then zeros: each row has a length of its own, the first row is full."""
    batch, sequence = shape
    lengths = rng.integers(1 + sequence // 2, sequence + 1, batch)
    lengths[:1] = sequence
    return np.arange(sequence)[None, :] < lengths[:, None]


def causal_mask(rng: np.random.Generator, shape: Shape, sizes: Sizes) -> Array:
    """Mostly ones; the first position is always visible, so that no row of scores is empty."""
    mask = rng.random(shape) < 0.8
    mask[:, :1] = True
    return mask


def positions(rng: np.random.Generator, shape: Shape, sizes: Sizes) -> Array:
    """Consecutive positions after the axis ``past``."""
    return np.broadcast_to(np.arange(shape[1]) + sizes["past"], shape)


def sampling_rate(rng: np.random.Generator, shape: Shape, sizes: Sizes) -> Array:
    """The rate in Hz of sound that is cut in windows of the axis ``window``: 32 ms and 4 ms."""
    return np.full(shape, 16_000 if sizes["window"] == 576 else 8_000)
