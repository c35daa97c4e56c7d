"""Makes inputs of given shapes, for trying and timing a model without data."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import StrEnum

import numpy as np

from moonpoly.error import InputError
from moonpoly.runtime.metadata import TensorSpec


class Fill(StrEnum):
    """What an input is filled with."""

    RANDOM = "random"
    ZEROS = "zeros"
    ONES = "ones"


def fill_inputs(
    specs: Sequence[TensorSpec],
    shapes: Mapping[str, tuple[int, ...]],
    *,
    expected: Mapping[str, int] | None = None,
    fill: Fill = Fill.RANDOM,
    seed: int = 0,
) -> dict[str, np.ndarray]:
    """Return an array for every input.

    Random floating-point values are uniform in [-1, 1); random integers are 0 or 1, which are
    valid as token ids, masks and types of any vocabulary.

    Parameters
    ----------
    shapes
        By input name. An input left out takes its sizes from the symbols that others bind.
    expected
        Sizes of symbols that no shape binds.

    Raises
    ------
    InputError
        For an unknown input, a wrong rank, or a symbol that no shape binds.
    """
    sizes = {**(expected or {}), **_bind(specs, shapes)}
    rng = np.random.default_rng(seed)
    return {
        spec.name: _fill(spec, shapes.get(spec.name) or _resolve(spec, sizes), fill, rng)
        for spec in specs
    }


def _bind(specs: Sequence[TensorSpec], shapes: Mapping[str, tuple[int, ...]]) -> dict[str, int]:
    by_name = {spec.name: spec for spec in specs}
    sizes: dict[str, int] = {}
    for name, shape in shapes.items():
        if name not in by_name:
            raise InputError(f"unknown input {name!r}; the model takes {', '.join(by_name)}")
        spec = by_name[name]
        if len(shape) != len(spec.shape):
            raise InputError(
                f"input {name!r} must have rank {len(spec.shape)} ({spec}), got rank {len(shape)}"
            )
        for dim, size in zip(spec.shape, shape, strict=True):
            if isinstance(dim, str):
                sizes.setdefault(dim, size)
    return sizes


def _resolve(spec: TensorSpec, sizes: Mapping[str, int]) -> tuple[int, ...]:
    shape = []
    for dim in spec.shape:
        size = dim if isinstance(dim, int) else sizes.get(dim)
        if size is None:
            raise InputError(
                f"input {spec.name!r} needs a shape: {dim} is unknown ({spec}); "
                f"give --shape {spec.name}={'x'.join(map(str, spec.shape))} with numbers"
            )
        shape.append(size)
    return tuple(shape)


def _fill(
    spec: TensorSpec, shape: tuple[int, ...], fill: Fill, rng: np.random.Generator
) -> np.ndarray:
    dtype = np.dtype(spec.dtype)
    if fill is Fill.ZEROS:
        return np.zeros(shape, dtype)
    if fill is Fill.ONES:
        return np.ones(shape, dtype)
    if dtype.kind == "f":
        return rng.uniform(-1.0, 1.0, size=shape).astype(dtype)
    return rng.integers(0, 2, size=shape).astype(dtype)
