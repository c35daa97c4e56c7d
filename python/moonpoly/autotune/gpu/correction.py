"""Fits what launches on a GPU take more or less than their cost tables say, by what was recorded.

The terms are the selector's, see ``src/select/gpu_correction.h``. Each kernel's weights are the
ridge regression of the logarithm of measured over predicted time: first weights that all kernels
share, then what each one's launches say beyond them.
"""

from __future__ import annotations

import json
import math
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

# How strongly weights are held near none and near those that all kernels share, in equivalents of
# one launch.
_SHARED_RIDGE, _OWN_RIDGE = 3.0, 4.0
# Launches that took twice the best one's time count so much.
_HALF_AS_FAST = 0.35
_FEWEST = 5
_DIGITS = 4
# As the selector gives them: numbers before a launch's terms, and terms.
_NUMBERS, TERMS = 7, 229
# As in the selector.
_LEAST_US = 0.1
Vector = npt.NDArray[np.float64]
Key = tuple[str, int, int]


@dataclass(frozen=True)
class Predicted:
    """A launch as the selector sees it: µs by its kernel's table, by the selector, and the terms
    whose weights correct the one to the other."""

    table_us: float
    predicted_us: float
    load: float
    overlap: bool
    terms: Vector


def predicted_launches(
    kernels: Any, names: Sequence[str], record: Mapping[str, Any]
) -> dict[Key, Predicted]:
    """Return the launches of one region for a recorded shape, by kernel, cluster and slices.

    They overlap where the record's do.
    """
    from moonpoly import _ffi_api

    shape = record["m"], record["n"], record["k"]
    flat = np.from_dlpack(
        _ffi_api.gpu_launches(kernels, *shape, access=record["access"], overlap=record["overlap"])
    )
    launches: dict[Key, Predicted] = {}
    rows = flat.reshape(-1, _NUMBERS + TERMS)
    for (index, cluster, slices, overlap, us, predicted_us, load), terms in zip(
        rows[:, :_NUMBERS].tolist(), rows[:, _NUMBERS:], strict=True
    ):
        key = names[int(index)], int(cluster), int(slices)
        # Short launches are there both ways.
        if key not in launches or bool(overlap) == record["overlap"]:
            launches[key] = Predicted(us, predicted_us, load, bool(overlap), terms)
    return launches


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
        Shapes with their launches, as ``benchmarks.gpu.record`` writes them.

    Returns
    -------
    dict
        How far each kernel's launches of whole reductions are corrected, where none overlap.
    """
    for kernel in manifest["kernels"]:
        kernel["cost"].pop("correction", None)
    rows: dict[str, list[list[Any]]] = defaultdict(list)
    places: dict[str, list[tuple[float, float, float, int]]] = defaultdict(list)
    for name, place, *row in _rows(manifest, records):
        if place is not None:
            places[name].append((*place, len(rows[name])))
        rows[name].append(row)
    samples = {name: _System(each) for name, each in rows.items() if len(each) >= _FEWEST}
    if not samples:
        return {}
    shared = sum(samples.values(), start=_System([])).solve(_SHARED_RIDGE)
    points: dict[str, list[Point]] = {}
    for kernel in manifest["kernels"]:
        name = kernel["name"]
        if name not in samples:
            continue
        own = samples[name].without(shared).solve(_OWN_RIDGE)
        weights = [round(float(x), _DIGITS) for x in shared + own]
        kernel["cost"]["correction"] = weights
        points[name] = [
            Point(k, load, _log_ratio(us, rows[name][row][0], np.array(weights)))
            for k, load, us, row in places[name]
        ]
    return points


def _log_ratio(us: float, terms: Vector, weights: Vector) -> float:
    """Return the logarithm of corrected over predicted time."""
    return math.log(_exp2(_log2(us) + float(terms @ weights)) / us)


class _System:
    """The normal equations of weighted rows of terms."""

    def __init__(self, rows: Sequence[Sequence[Any]]) -> None:
        self.normal: Any = 0.0
        self.right: Any = 0.0
        if rows:
            terms, left, weight = (np.array(column) for column in zip(*rows, strict=True))
            self.normal = terms.T @ (terms * weight[:, None])
            self.right = terms.T @ (weight * left)

    def __add__(self, other: _System) -> _System:
        out = _System([])
        out.normal, out.right = self.normal + other.normal, self.right + other.right
        return out

    def without(self, weights: Vector) -> _System:
        """The same of what the weights leave unexplained."""
        out = _System([])
        out.normal, out.right = self.normal, self.right - self.normal @ weights
        return out

    def solve(self, ridge: float) -> Vector:
        """The weights of least squared error."""
        solved: Vector = np.linalg.solve(self.normal + ridge * np.eye(len(self.right)), self.right)
        return solved


def _rows(
    manifest: Mapping[str, Any], records: Sequence[Mapping[str, Any]]
) -> Iterator[tuple[str, tuple[float, float, float] | None, Vector, float, float]]:
    """Yield the kernel of each recorded launch, its k, load and µs by the table if it is whole and
    overlaps no other, its terms, what they explain, and its weight."""
    from moonpoly import _ffi_api

    kernels = _ffi_api.GpuKernelSet(json.dumps(manifest), {})
    names = [kernel["name"] for kernel in manifest["kernels"]]
    for record in records:
        launches = predicted_launches(kernels, names, record)
        best_us = min((us for *_, us in record["launches"]), default=0.0)
        for name, cluster, slices, us in record["launches"]:
            if (name, cluster, slices) not in launches:
                continue
            launch = launches[name, cluster, slices]
            table_us = max(launch.table_us, _LEAST_US)
            whole = cluster * slices == 1 and not launch.overlap
            place = (record["k"], launch.load, table_us) if whole else None
            left = _log2(us) - _log2(table_us)
            yield name, place, launch.terms, left, _HALF_AS_FAST ** float(np.log2(us / best_us))


def _log2(x: float) -> float:
    """The selector's logarithm, which is linear between powers of two."""
    mantissa, exponent = np.frexp(x)
    return float(2.0 * mantissa - 2.0 + exponent)


def _exp2(x: float) -> float:
    """What it is the logarithm of."""
    return math.ldexp(1.0 + x - math.floor(x), math.floor(x))
