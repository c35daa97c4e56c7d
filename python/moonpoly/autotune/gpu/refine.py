"""Moves a GPU's costs by what new launches take, keeping what they know of others.

Costs that were fitted to thousands of launches are not fitted again to a few hundred: what these
take beyond what is predicted, corrections included, moves each kernel's own weights. Only where
tables are further off than weights should mend, as beyond the loads that were sampled, a smooth
function of the reduction length and the load scales them first.
"""

from __future__ import annotations

import copy
import math
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from moonpoly.autotune.gpu.correction import selector_log2
from moonpoly.autotune.gpu.predicted import Predictions
from moonpoly.autotune.gpu.surface import scale_table
from moonpoly.tir_templates.items import ITEMS

# Tables are scaled so often: the last points tell of longer launches too, which are not linear in
# them.
_ROUNDS = 3
# The logarithm of how far off tables may be before they are scaled. Scaled by all that is left,
# they took what weights explain better: choices on drawn shapes were 0.1 % slower, on listed shapes
# whose plans had changed 1.4 %.
_OFF = 0.3
# Launches that took twice the best one's time count so much, for tables and for weights.
_TABLE_HALF_AS_FAST, _WEIGHT_HALF_AS_FAST = 1 / 3, 0.35
# Tables say less of launches whose blocks share the reduction.
_SHARED_WEIGHT = 0.25
# As for corrections from nothing: launches that would not be looked at once more count little, and
# what a shape's launches have in common is left out.
_NEAR, _FAR_WEIGHT, _COMMON_RIDGE = 1.4, 0.05, 2.0
# How strongly weights are held near what they were, in launches. With 40 choices on drawn shapes
# that nothing was moved by were 0.15 % slower, with 1 to 8 the same.
_RIDGE = 4.0
_FEWEST = 5
_DIGITS = 4
# As in the selector.
_LEAST_US = 0.1


@dataclass(frozen=True)
class _Launch:
    """What a launch took and was predicted to, and where it lies on its kernel's table."""

    kernel: str
    us: float
    # Over the best of its shape's.
    slower: float
    table_us: float
    predicted_us: float
    k: float
    load: float
    shared: bool
    terms: npt.NDArray[np.float64]


def refine(manifest: Mapping[str, Any], records: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return the manifest with the costs of its kernels moved toward recorded launches.

    Parameters
    ----------
    manifest
        A GPU artifact's, with costs that predict well on the whole.
    records
        Shapes with their launches, as ``record`` yields them.
    """
    refined = copy.deepcopy(dict(manifest))
    for _ in range(_ROUNDS):
        _move_tables(refined, records)
    _move_weights(refined, records)
    return refined


def _move_tables(manifest: dict[str, Any], records: Sequence[Mapping[str, Any]]) -> None:
    of: dict[str, list[_Launch]] = defaultdict(list)
    for launches in _launches(manifest, records):
        for each in launches:
            of[each.kernel].append(each)
    for kernel in manifest["kernels"]:
        own = of[kernel["name"]]
        if not own:
            continue
        left = np.array([math.log(x.us / x.predicted_us) for x in own])
        if "correction" in kernel["cost"]:
            left -= np.clip(left, -_OFF, _OFF)
        weight = np.array(
            [
                _TABLE_HALF_AS_FAST ** math.log2(x.slower) * (_SHARED_WEIGHT if x.shared else 1.0)
                for x in own
            ]
        )
        at = [(x.k, x.load) for x in own]
        scale_table(kernel["cost"], at, left, weight, manifest["grid"])


def _move_weights(manifest: dict[str, Any], records: Sequence[Mapping[str, Any]]) -> None:
    rows: dict[str, list[tuple[_Launch, float, float]]] = defaultdict(list)
    for launches in _launches(manifest, records):
        near_us = _NEAR * min(x.table_us for x in launches)
        weights = [
            _WEIGHT_HALF_AS_FAST ** math.log2(x.slower)
            * (1.0 if x.table_us <= near_us else _FAR_WEIGHT)
            for x in launches
        ]
        left = [selector_log2(x.us) - selector_log2(x.predicted_us) for x in launches]
        common = float(np.dot(weights, left)) / (sum(weights) + _COMMON_RIDGE)
        for each, weight, own_left in zip(launches, weights, left, strict=True):
            rows[each.kernel].append((each, weight, own_left - common))
    for kernel in manifest["kernels"]:
        cost, own = kernel["cost"], rows[kernel["name"]]
        if "correction" not in cost or len(own) < _FEWEST:
            continue
        terms = np.stack([each.terms for each, _, _ in own])
        counts, beyond = (np.array([row[i] for row in own]) for i in (1, 2))
        normal = terms.T @ (terms * counts[:, None]) + _RIDGE * np.eye(terms.shape[1])
        moved = cost["correction"] + np.linalg.solve(normal, terms.T @ (counts * beyond))
        cost["correction"] = [round(float(x), _DIGITS) for x in moved]


def _launches(
    manifest: Mapping[str, Any], records: Sequence[Mapping[str, Any]]
) -> Iterator[list[_Launch]]:
    """Yield each record's launches that the selector would make."""
    predictions = Predictions(manifest)
    step = ITEMS[manifest["dtype"]].step
    for record in records:
        predicted = predictions.of(record)
        best_us = min((us for *_, us in record["launches"]), default=0.0)
        found = []
        for name, cluster, slices, us in record["launches"]:
            launch = predicted.get((name, cluster, slices))
            if launch is None:
                continue
            parts = cluster * slices
            found.append(
                _Launch(
                    name,
                    us,
                    us / best_us,
                    max(launch.table_us, _LEAST_US),
                    max(launch.predicted_us, _LEAST_US),
                    -(-record["k"] // (step * parts)) * step,
                    launch.load,
                    parts > 1,
                    launch.terms,
                )
            )
        if found:
            yield found
