"""What the registry says of a model: its file, its inputs, and the shapes to check it at."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]
Arrays = dict[str, Array]
Shape = tuple[int, ...]
Sizes = Mapping[str, int]
# Values of one input: a generator, its shape, and the sizes of the model's axes.
Fill = Callable[[np.random.Generator, Shape, Sizes], Array]


class Source(Protocol):
    """Where a model's file comes from."""

    def path(self) -> Path:
        """Give the file, fetched or made on the first call.

        Raises
        ------
        ModelFileError
            If it can't be had; the message says what is needed.
        """


@dataclass(frozen=True)
class Axis:
    """An open axis of a model and the sizes that are legal for it.

    Attributes
    ----------
    low, high
        Smallest and largest legal size; `high` is None where the model sets no limit.
    step
        Legal sizes are `low` plus multiples of this.
    """

    name: str
    low: int = 1
    high: int | None = None
    step: int = 1

    def allows(self, size: int) -> bool:
        """Whether `size` is legal."""
        fits = self.low <= size and (self.high is None or size <= self.high)
        return fits and (size - self.low) % self.step == 0


@dataclass(frozen=True)
class Input:
    """One input of a model.

    Attributes
    ----------
    shape
        Sizes; a string names an axis of the model, or a sum of such (``"past+sequence"``).
    fill
        Makes its values.
    """

    name: str
    dtype: str
    shape: tuple[int | str, ...]
    fill: Fill

    def sized(self, sizes: Sizes) -> Shape:
        """Its shape where the axes have these sizes."""
        return tuple(
            dim if isinstance(dim, int) else sum(sizes[name] for name in dim.split("+"))
            for dim in self.shape
        )


@dataclass(frozen=True)
class Model:
    """A model file and the shapes at which it is checked.

    Attributes
    ----------
    axes
        The open axes; a shape gives a size for each, in this order.
    shapes
        Batch 1 and more, the smallest legal sizes, odd ones, large ones.
    integer
        Whether it computes with 8-bit integers, for which ONNX Runtime itself gives different
        results with and without its optimisations.
    embedding
        The output that holds one vector for each input of a batch, compared by their angles; empty
        where what counts is the largest entry.
    timed
        Whether it is one of those that ``moonpoly bench models`` measures by default.
    """

    name: str
    source: Source
    operands: tuple[Input, ...]
    axes: tuple[Axis, ...]
    shapes: tuple[Shape, ...]
    integer: bool = False
    embedding: str = ""
    timed: bool = False

    def path(self) -> Path:
        """Give the model's file; see `Source.path`."""
        return self.source.path()

    def inputs(self, shape: Shape, rng: np.random.Generator) -> Arrays:
        """Make random inputs by name for a size of each axis."""
        sizes = {axis.name: size for axis, size in zip(self.axes, shape, strict=True)}
        made = {}
        for each in self.operands:
            full = each.sized(sizes)
            made[each.name] = np.asarray(each.fill(rng, full, sizes), dtype=each.dtype)
        return made

    def seed(self, shape: Shape) -> int:
        """A seed of its own for each model and shape, the same in every process."""
        return zlib.crc32(f"{self.name} {shape}".encode())
