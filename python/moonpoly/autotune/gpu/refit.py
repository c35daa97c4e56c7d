"""Corrects a GPU's cost tables by recorded launches, so that plans are ranked as they ran.

Tables are sampled where tiles make a square output and nothing else runs. On drawn shapes a kernel
is now a little faster, now slower, in a way that depends on the reduction length and the load. Here
each kernel's table is multiplied by a smooth function of the two, fitted to what was recorded. What
storing C by pairs or single elements takes more is fitted in turns with it, and what adding up the
parts of a shared reduction costs afterwards. Launches that overlapped take part, with what
overlapping saves, which is fitted too. What tables can't tell is fitted last, see
:mod:`~moonpoly.autotune.gpu.correction`.

Tiles fetch from the second-level cache no faster than it gives, which depends on how the rows of A
and B lie on its lines: the rates are read off the fastest launches, and launches that they bound
say nothing of a kernel's table.
"""

from __future__ import annotations

import copy
import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from moonpoly.autotune.gpu.correction import fit_corrections
from moonpoly.autotune.gpu.predicted import Predictions
from moonpoly.autotune.gpu.recorded import (
    FETCHING,
    RecordedLaunch,
    fetch_rates,
    fetched_items,
    is_bound,
    rows_of,
)
from moonpoly.autotune.gpu.surface import scale_table
from moonpoly.tir_templates.items import ALIGNED_BYTES, ITEMS, OUTPUT_BYTES

# The same of what narrow stores cost, which few records tell of; in shares of a launch.
_NARROW_RIDGE = 2e-3
# How strongly what adding up costs is held near what was known, in the same.
_SPLIT_RIDGE = 0.2
_NARROW_WEIGHT = 0.25
_ROUNDS = 3
# Launches that took this many times the best one's time count a third of it.
_FAR = 2.0
_CLUSTERS = (1, 2, 4, 8)
_FEWEST = 50
Vector = npt.NDArray[np.float64]


def refit(manifest: Mapping[str, Any], records: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return the manifest with the costs of its kernels fitted to recorded launches.

    Parameters
    ----------
    manifest
        A GPU artifact's.
    records
        Shapes with their launches, as :mod:`~moonpoly.autotune.gpu.record` makes them.
    """
    fitted = copy.deepcopy(dict(manifest))
    machine = fitted["machine"]
    for kernel in fitted["kernels"]:
        kernel["cost"].pop("correction", None)
    for _ in range(_ROUNDS):
        launches = _launches(fitted, records)
        rates = fetch_rates([x for each in launches.values() for x in each], machine)
        for kernel in fitted["kernels"]:
            whole = [x for x in launches[kernel["name"]] if x.cluster * x.slices == 1]
            free = [x for x in whole if not is_bound(x, machine["launch_us"], rates)]
            if free:
                _correct(kernel["cost"], free, fitted["grid"])
        for loads, found in rates.items():
            machine[FETCHING[loads].key] = found
        launches = _launches(fitted, records)
        for kernel in fitted["kernels"]:
            _refit_narrow(kernel["cost"], launches[kernel["name"]])
        _refit_overlap(machine, launches)
    launches = _launches(fitted, records)
    for kernel in fitted["kernels"]:
        shared = [x for x in launches[kernel["name"]] if x.cluster * x.slices > 1]
        if shared:
            _refit_split(kernel["cost"], shared)
    # Plans are looked at once more if their tables put them near the cheapest, so tables take over
    # what they can of the corrections.
    corrections = fit_corrections(fitted, records)
    for kernel in fitted["kernels"]:
        points = corrections.get(kernel["name"])
        if points:
            at = [(point.k, point.load) for point in points]
            ratios = np.array([point.log_ratio for point in points])
            scale_table(kernel["cost"], at, ratios, np.ones(len(points)), fitted["grid"])
    fit_corrections(fitted, records)
    return fitted


def _launches(
    manifest: Mapping[str, Any], records: Sequence[Mapping[str, Any]]
) -> dict[str, list[RecordedLaunch]]:
    """Pair what was recorded with what the selector predicts."""
    predictions = Predictions(manifest)
    specs = {spec["name"]: spec for spec in manifest["kernels"]}
    item_bytes = ITEMS[manifest["dtype"]].bytes
    out: dict[str, list[RecordedLaunch]] = defaultdict(list)
    step = ITEMS[manifest["dtype"]].step
    widest = ALIGNED_BYTES // OUTPUT_BYTES[manifest["out_dtype"]]
    for record in records:
        predicted = predictions.of(record)
        shape = record["m"], record["n"], record["k"]
        best_us = min(us for *_, us in record["launches"])
        steps = -(-record["k"] // step)
        width = next(w for w in (widest, 2, 1) if record["n"] % w == 0)
        for name, cluster, slices, us in record["launches"]:
            if (name, cluster, slices) not in predicted:
                continue
            launch = predicted[name, cluster, slices]
            saved_us = launch.table_us - launch.predicted_us
            k = -(-steps // (cluster * slices)) * step
            weight = 3.0 ** -(math.log(us / best_us) / math.log(_FAR))
            fetched = item_bytes * fetched_items(specs[name], *shape)
            at = k, launch.load, cluster, slices, width
            loads = specs[name]["loads"]
            rows = rows_of(loads, record["k"] * item_bytes)
            out[name].append(
                RecordedLaunch(
                    us + saved_us,
                    launch.table_us,
                    *at,
                    rows,
                    loads,
                    fetched,
                    record["overlap"],
                    weight,
                )
            )
    return out


def _correct(
    cost: dict[str, Any], launches: Sequence[RecordedLaunch], grid: Mapping[str, Any]
) -> None:
    """Multiply a table by the smooth function that explains the launches best."""
    # What is left of a launch without its narrow stores is some of it at least.
    residual = np.array(
        [
            math.log(max(x.us - narrow_us, 0.1 * x.us) / (x.predicted_us - narrow_us))
            for x in launches
            for narrow_us in [x.narrow_us(cost)]
        ]
    )
    # Launches with narrow stores have a cost of their own to be explained by.
    weight = np.array([x.weight * (1.0 if x.width > 2 else _NARROW_WEIGHT) for x in launches])
    scale_table(cost, [(x.k, x.load) for x in launches], residual, weight, grid)


def _refit_narrow(cost: dict[str, Any], launches: Sequence[RecordedLaunch]) -> None:
    """Fit what a wave takes more where C is stored by pairs, and by single elements."""
    fitted = []
    for width in (2, 1):
        narrow = [x for x in launches if x.width == width]
        waves = np.array([x.waves for x in narrow])
        beyond = np.array([x.us - x.predicted_us + x.narrow_us(cost) for x in narrow])
        weight = np.array([x.weight / x.us**2 for x in narrow])
        us = float(weight @ (waves * beyond)) / (float(weight @ waves**2) + _NARROW_RIDGE)
        fitted.append(round(max(us, 0.0), 4))
    cost["narrow_us"] = fitted


def _refit_overlap(
    machine: dict[str, Any], launches: Mapping[str, Sequence[RecordedLaunch]]
) -> None:
    """Fit what overlapping saves, by the launches near the best of their shape."""
    near = [
        x
        for each in launches.values()
        for x in each
        if x.overlap and x.weight > 0.5 and x.width > 2
    ]
    if len(near) >= _FEWEST:
        more_us = float(np.median([x.predicted_us - x.us for x in near]))
        machine["overlap_us"] = round(max(machine["overlap_us"] + more_us, 0.01), 3)


def _refit_split(cost: dict[str, Any], launches: Sequence[RecordedLaunch]) -> None:
    """Fit what adding up costs, beyond what a launch of the parts does."""

    rows = np.array(
        [
            [
                *(float(x.cluster == c) for c in _CLUSTERS[1:]),
                x.slices > 1,
                x.slices * (x.slices > 1),
            ]
            for x in launches
        ],
        dtype=float,
    )
    # Beyond what was known, which is kept where few launches say otherwise. In relative terms: a
    # microsecond matters where there are few.
    beyond = np.array([x.us - x.predicted_us for x in launches])
    weight = np.array([x.weight / x.us**2 for x in launches])
    normal = rows.T @ (rows * weight[:, None]) + _SPLIT_RIDGE * np.eye(rows.shape[1])
    known = np.array([*cost["cluster_us"][1:], cost["slices_us"], cost["slice_us"]])
    fitted = known + np.linalg.solve(normal, rows.T @ (weight * beyond))
    if fitted[-1] < 0:
        # Launches of few slices may say so, but many slices would cost less than nothing.
        beyond = beyond + rows[:, -1] * known[-1]
        held = np.linalg.solve(normal[:-1, :-1], rows[:, :-1].T @ (weight * beyond))
        fitted = np.append(known[:-1] + held, 0.0)
    cost["cluster_us"] = [0.0, *(round(float(us), 4) for us in fitted[:3])]
    cost["slices_us"], cost["slice_us"] = (round(float(us), 4) for us in fitted[3:])
