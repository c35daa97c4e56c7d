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


def page(rng: np.random.Generator, shape: Shape, sizes: Sizes) -> Array:
    """Lines of text-like strokes on white paper, as an image of mean 0 and variance about 1.

    On noise a detector of text answers with numbers so close to zero that their last digits mean
    nothing: ONNX Runtime's own two optimisation levels then differ by several per cent.
    """
    batch, _, height, width = shape
    ink = np.zeros((batch, height, width), dtype=bool)
    for image in ink:
        for top in range(int(rng.integers(4, 10)), height - 12, 24):
            # Glyphs of 3 by 5 cells of 3 by 3 pixels, a gap between them.
            glyphs = rng.random((5, width // 12, 3)) < 0.6
            cells = np.pad(glyphs, ((0, 0), (0, 0), (0, 1))).reshape(5, -1)
            strokes = np.kron(cells, np.ones((3, 3), dtype=bool))[: height - top]
            image[top : top + len(strokes), : strokes.shape[1]] = strokes
    noise = rng.normal(scale=0.05, size=shape)
    return np.where(ink[:, None], -2.0, 2.2) + noise


def sound_and_silence(rng: np.random.Generator, shape: Shape, sizes: Sizes) -> Array:
    """Noise, then digital silence.

    Spectra that are scaled by their quietest bin want one that is exactly silent: of pure noise it
    is what a cancellation leaves, and the scale of everything follows its last digits.
    """
    sound = rng.uniform(-1, 1, shape)
    sound[:, shape[1] // 3 :] = 0
    return sound


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
