"""Fits what launches on a GPU take more or less than their cost tables say, by what was recorded.

The terms are the selector's, see ``src/select/gpu_correction.h``. Each kernel's weights are the
ridge regression of the logarithm of measured over predicted time: first weights that all kernels
share, then what each one's launches say beyond them, leaving out what launches of the same shape
have in common.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from moonpoly.autotune.gpu.predicted import Predictions

# How strongly weights are held near none and near those that all kernels share, in equivalents of
# one launch.
_SHARED_RIDGE, _OWN_RIDGE = 3.0, 4.0
# Launches that took twice the best one's time count so much.
_HALF_AS_FAST = 0.35
_FEWEST = 5
# The selector looks once more at launches whose tables say that they take so many times the least
# at most; others count so much.
_NEAR, _FAR_WEIGHT = 1.4, 0.05
# How often weights and what a shape's launches have in common are fitted, and how strongly that is
# held near none, in launches.
_TURNS, _COMMON_RIDGE = 2, 2.0
_DIGITS = 4
# As in the selector.
_LEAST_US = 0.1
Vector = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Point:
    """Where a launch lies on a table's axes, and the logarithm of its correction there."""

    k: float
    load: float
    log_ratio: float


def fit_corrections(
    manifest: dict[str, Any], records: Sequence[Mapping[str, Any]]
) -> dict[str, list[Point]]:
    """Set ``correction`` in the costs of kernels that were recorded.

    Parameters
    ----------
    manifest
        A GPU artifact's. Corrections that its costs have are left out of account, and replaced.
    records
        Shapes with their launches, as :mod:`~moonpoly.autotune.gpu.record` makes them.

    Returns
    -------
    dict
        How far each kernel's launches of whole reductions are corrected, where none overlap.
    """
    for kernel in manifest["kernels"]:
        kernel["cost"].pop("correction", None)
    rows = list(_rows(manifest, records))
    of: dict[str, list[int]] = defaultdict(list)
    for at, row in enumerate(rows):
        of[row.kernel].append(at)
    indices = {name: np.array(each) for name, each in of.items() if len(each) >= _FEWEST}
    if not indices:
        return {}
    weights = _weights(rows, indices)
    points: dict[str, list[Point]] = {}
    for kernel in manifest["kernels"]:
        name = kernel["name"]
        if name not in weights:
            continue
        kernel["cost"]["correction"] = [round(float(x), _DIGITS) for x in weights[name]]
        rounded = np.array(kernel["cost"]["correction"])
        points[name] = [
            Point(row.k, row.load, _log_ratio(row.table_us, row.terms, rounded))
            for row in (rows[at] for at in of[name])
            if row.whole
        ]
    return points


def _weights(rows: Sequence[_Row], indices: Mapping[str, npt.NDArray[Any]]) -> dict[str, Vector]:
    """Return each kernel's weights.

    What all launches of a shape take more or less than predicted does not tell which is the
    fastest, and no kernel's terms explain it well: it is fitted in turns with them, and left out.
    """
    left = np.array([row.left for row in rows])
    weight = np.array([row.weight for row in rows])
    # Launches of kernels with too few to be corrected tell nothing of the others.
    weight[np.setdiff1d(np.arange(len(rows)), np.concatenate([*indices.values()]))] = 0.0
    shape = np.array([row.shape for row in rows])
    terms = {name: np.stack([rows[at].terms for at in each]) for name, each in indices.items()}
    normals = {name: each.T @ (each * weight[indices[name], None]) for name, each in terms.items()}
    common = np.zeros(len(rows))
    weights: dict[str, Vector] = {}
    for _ in range(_TURNS):
        target = weight * (left - common)
        rights = {name: each.T @ target[indices[name]] for name, each in terms.items()}
        shared = _solve(sum(normals.values()), sum(rights.values()), _SHARED_RIDGE)
        unexplained = left.copy()
        for name, each in terms.items():
            beyond = rights[name] - normals[name] @ shared
            weights[name] = shared + _solve(normals[name], beyond, _OWN_RIDGE)
            unexplained[indices[name]] -= each @ weights[name]
        held = np.bincount(shape, weight) + _COMMON_RIDGE
        common = (np.bincount(shape, weight * unexplained) / held)[shape]
    return weights


def _solve(normal: Any, right: Any, ridge: float) -> Vector:
    """Return the weights of least squared error, held near none."""
    solved: Vector = np.linalg.solve(normal + ridge * np.eye(len(right)), right)
    return solved


def _log_ratio(us: float, terms: Vector, weights: Vector) -> float:
    """Return the logarithm of corrected over predicted time."""
    return math.log(_exp2(selector_log2(us) + float(terms @ weights)) / us)


@dataclass(frozen=True)
class _Row:
    """A recorded launch: what is left to explain of its time, and what may explain it."""

    kernel: str
    shape: int
    k: float
    load: float
    table_us: float
    # Whether it overlaps no other and reduces all of k at once, as tables tell.
    whole: bool
    terms: Vector
    left: float
    weight: float


def _rows(manifest: Mapping[str, Any], records: Sequence[Mapping[str, Any]]) -> Iterator[_Row]:
    """Yield the recorded launches that the selector would make."""
    predictions = Predictions(manifest)
    shapes: dict[tuple[int, int, int, str], int] = {}
    for record in records:
        launches = predictions.of(record)
        known = [
            (name, cluster, slices, us, launches[name, cluster, slices])
            for name, cluster, slices, us in record["launches"]
            if (name, cluster, slices) in launches
        ]
        best_us = min((us for *_, us in record["launches"]), default=0.0)
        near_us = _NEAR * min((launch.table_us for *_, launch in known), default=0.0)
        key = record["m"], record["n"], record["k"], record["access"]
        shape = shapes.setdefault(key, len(shapes))
        for name, cluster, slices, us, launch in known:
            table_us = max(launch.table_us, _LEAST_US)
            weight = _HALF_AS_FAST ** math.log2(us / best_us)
            yield _Row(
                name,
                shape,
                record["k"],
                launch.load,
                table_us,
                cluster * slices == 1 and not launch.overlap,
                launch.terms,
                selector_log2(us) - selector_log2(table_us),
                weight if launch.table_us <= near_us else _FAR_WEIGHT * weight,
            )


def selector_log2(x: float) -> float:
    """The selector's logarithm, which is linear between powers of two."""
    mantissa, exponent = np.frexp(x)
    return float(2.0 * mantissa - 2.0 + exponent)


def _exp2(x: float) -> float:
    """What it is the logarithm of."""
    return math.ldexp(1.0 + x - math.floor(x), math.floor(x))
