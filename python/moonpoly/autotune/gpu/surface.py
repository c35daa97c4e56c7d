"""Smooth corrections of a GPU's cost table, over the reduction length and the load."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

# Where the correction is free, up to the ends of the table; it is linear in the logarithms between.
_K_KNOTS = (64, 256, 1024, 4096, 16_384)
_LOAD_KNOTS = (0.01, 0.1, 0.3, 0.6, 1.0, 2.0, 4.0, 8.0)
# How strongly a table is held near what it was, in equivalents of one launch.
_RIDGE = 1.5
Vector = npt.NDArray[np.float64]


class Surface:
    """A function of k and load that is linear in their logarithms between knots."""

    def __init__(self, grid: Mapping[str, Any]) -> None:
        self._axes = [
            np.log([*(x for x in knots if x < points[-1]), points[-1]])
            for knots, points in ((_K_KNOTS, grid["k"]), (_LOAD_KNOTS, grid["load"]))
        ]

    def basis(self, k: npt.ArrayLike, load: npt.ArrayLike) -> Vector:
        """The shares of the knots around points, [points, knots]; outside, of the nearest."""
        along_k, along_load = map(_hat, self._axes, (k, load))
        return (along_k[:, :, None] * along_load[:, None, :]).reshape(len(along_k), -1)

    def roughness(self) -> Vector:
        """The penalty: neighbouring knots differ little, and none strays far."""
        shape = tuple(len(axis) for axis in self._axes)
        places = np.arange(shape[0] * shape[1]).reshape(shape)
        pairs = zip(
            np.concatenate([places[:-1].ravel(), places[:, :-1].ravel()]),
            np.concatenate([places[1:].ravel(), places[:, 1:].ravel()]),
            strict=True,
        )
        out = 0.1 * np.eye(places.size)
        for here, there in pairs:
            out[[here, there], [here, there]] += 1
            out[[here, there], [there, here]] -= 1
        return out


def _hat(knots: Vector, values: npt.ArrayLike) -> Vector:
    at = np.clip(np.log(np.atleast_1d(values)), knots[0], knots[-1])
    high = np.clip(np.searchsorted(knots, at), 1, len(knots) - 1)
    part = (at - knots[high - 1]) / (knots[high] - knots[high - 1])
    out = np.zeros((len(at), len(knots)))
    rows = np.arange(len(at))
    out[rows, high - 1], out[rows, high] = 1 - part, part
    return out


def rising(table: Vector) -> Vector:
    """Return a table that rises along both axes: no launch is shortened by more work.

    Where it did not, it is between the largest before and the smallest after.
    """
    for axis in (0, 1):
        before = np.maximum.accumulate(table, axis)
        after = np.flip(np.minimum.accumulate(np.flip(table, axis), axis), axis)
        table = np.sqrt(before * after)
    return table


def scale_table(
    cost: dict[str, Any],
    at: Sequence[tuple[float, float]],
    residual: Vector,
    weight: Vector,
    grid: Mapping[str, Any],
) -> None:
    """Multiply a table by a smooth function, fitted to logarithms at values of k and the load."""
    surface = Surface(grid)
    rows = surface.basis(*np.array(at).T)
    normal = rows.T @ (rows * weight[:, None]) + _RIDGE * surface.roughness()
    knots = np.linalg.solve(normal, rows.T @ (weight * residual))
    shape = len(grid["k"]), len(grid["load"])
    places = np.meshgrid(grid["k"], grid["load"], indexing="ij")
    scale = np.exp(surface.basis(*map(np.ravel, places)) @ knots)
    table = (np.array(cost["us"]) * scale).reshape(shape)
    cost["us"] = [round(float(us), 4) for us in rising(table).ravel()]
