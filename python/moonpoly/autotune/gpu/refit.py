"""Corrects a GPU's cost tables by recorded launches, so that plans are ranked as they ran.

Tables are sampled where tiles make a square output and nothing else runs. On drawn shapes a kernel
is now a little faster, now slower, in a way that depends on the reduction length and the load. Here
each kernel's table is multiplied by a smooth function of the two, fitted to what was recorded; what
adding up the parts of a shared reduction costs is fitted afterwards.
"""

from __future__ import annotations

import copy
import json
import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from moonpoly.tir_templates.items import ITEMS

# Where the correction is free, up to the ends of the table; it is linear in the logarithms between.
_K_KNOTS = (64, 256, 1024, 4096, 16_384)
_LOAD_KNOTS = (0.01, 0.1, 0.3, 0.6, 1.0, 2.0, 4.0, 8.0)
# How strongly the correction is held near none, in equivalents of one recorded launch.
_RIDGE = 1.5
_ROUNDS = 3
# Launches that took this many times the best one's time count a third of it.
_FAR = 1.5
_CLUSTERS = (1, 2, 4, 8)
Vector = npt.NDArray[np.float64]


@dataclass(frozen=True)
class _Launch:
    """One recorded launch: µs measured and predicted, and where it lies on the table's axes."""

    us: float
    predicted_us: float
    k: float
    load: float
    cluster: int
    slices: int
    weight: float


def refit(manifest: Mapping[str, Any], records: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return the manifest with the costs of its kernels fitted to recorded launches.

    Parameters
    ----------
    manifest
        A GPU artifact's.
    records
        Shapes with their launches, as ``benchmarks.gpu.record`` writes them. Those whose launches
        overlapped are left out: tables are of launches by themselves.
    """
    fitted = copy.deepcopy(dict(manifest))
    alone = [record for record in records if not record["overlap"]]
    for _ in range(_ROUNDS):
        launches = _launches(fitted, alone)
        for kernel in fitted["kernels"]:
            whole = [x for x in launches[kernel["name"]] if x.cluster * x.slices == 1]
            if whole:
                _correct(kernel["cost"], whole, fitted["grid"])
    launches = _launches(fitted, alone)
    for kernel in fitted["kernels"]:
        shared = [x for x in launches[kernel["name"]] if x.cluster * x.slices > 1]
        if shared:
            _refit_split(kernel["cost"], shared)
    return fitted


def _launches(
    manifest: Mapping[str, Any], records: Sequence[Mapping[str, Any]]
) -> dict[str, list[_Launch]]:
    """Pair what was recorded with what the selector predicts."""
    from moonpoly import _ffi_api

    kernels = _ffi_api.GpuKernelSet(json.dumps(manifest), {})
    out: dict[str, list[_Launch]] = defaultdict(list)
    step = ITEMS[manifest["dtype"]].step
    for record in records:
        predicted = {}
        shape = record["m"], record["n"], record["k"]
        for text in _ffi_api.gpu_enumerate_plans(
            kernels, *shape, access=record["access"], overlap=False
        ):
            # Plans of two regions, II and III, are many and take the time to read.
            if '"pattern":"II' not in text:
                [region] = json.loads(text)["regions"]
                predicted[region["kernel"], region["cluster"], region["slices"]] = region
        best_us = min(us for *_, us in record["launches"])
        steps = -(-record["k"] // step)
        for name, cluster, slices, us in record["launches"]:
            region = predicted.get((name, cluster, slices))
            if region is None:
                continue
            k = -(-steps // (cluster * slices)) * step
            far = math.log(us / best_us) / math.log(_FAR)
            out[name].append(
                _Launch(us, region["us"], k, region["load"], cluster, slices, 3.0**-far)
            )
    return out


class _Surface:
    """A function of k and load that is linear in their logarithms between knots."""

    def __init__(self, grid: Mapping[str, Any]) -> None:
        self._axes = [
            np.log([*(x for x in knots if x < points[-1]), points[-1]])
            for knots, points in ((_K_KNOTS, grid["k"]), (_LOAD_KNOTS, grid["load"]))
        ]

    def basis(self, k: float, load: float) -> Vector:
        """The shares of the knots around a point; outside, those of the nearest."""
        return np.outer(*map(_hat, self._axes, (k, load))).ravel()

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


def _hat(knots: Vector, value: float) -> Vector:
    at = float(np.clip(math.log(value), knots[0], knots[-1]))
    high = int(np.clip(np.searchsorted(knots, at), 1, len(knots) - 1))
    part = (at - knots[high - 1]) / (knots[high] - knots[high - 1])
    out = np.zeros(len(knots))
    out[high - 1], out[high] = 1 - part, part
    return out


def _correct(cost: dict[str, Any], launches: Sequence[_Launch], grid: Mapping[str, Any]) -> None:
    """Multiply a table by the smooth function that explains the launches best."""
    surface = _Surface(grid)
    rows = np.stack([surface.basis(x.k, x.load) for x in launches])
    residual = np.array([math.log(x.us / x.predicted_us) for x in launches])
    weight = np.array([x.weight for x in launches])
    normal = rows.T @ (rows * weight[:, None]) + _RIDGE * surface.roughness()
    knots = np.linalg.solve(normal, rows.T @ (weight * residual))
    table = np.array(cost["us"]).reshape(len(grid["k"]), len(grid["load"]))
    for i, k in enumerate(grid["k"]):
        for j, load in enumerate(grid["load"]):
            table[i, j] *= math.exp(float(surface.basis(k, load) @ knots))
    cost["us"] = [round(float(us), 4) for us in rising(table).ravel()]


def rising(table: Vector) -> Vector:
    """Return a table that rises along both axes: no launch is shortened by more work.

    Where it did not, it is between the largest before and the smallest after.
    """
    for axis in (0, 1):
        before = np.maximum.accumulate(table, axis)
        after = np.flip(np.minimum.accumulate(np.flip(table, axis), axis), axis)
        table = np.sqrt(before * after)
    return table


def _refit_split(cost: dict[str, Any], launches: Sequence[_Launch]) -> None:
    """Fit what adding up costs, beyond what a launch of the parts does."""

    def added(x: _Launch) -> float:
        us = cost["cluster_us"][_CLUSTERS.index(x.cluster)]
        return float(us + (cost["slices_us"] + cost["slice_us"] * x.slices) * (x.slices > 1))

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
    beyond = np.array([x.us - (x.predicted_us - added(x)) for x in launches])
    # In relative terms: a microsecond matters where there are few.
    weight = np.array([x.weight / x.us**2 for x in launches])
    normal = rows.T @ (rows * weight[:, None]) + 1e-3 * np.eye(rows.shape[1])
    fitted = np.linalg.solve(normal, rows.T @ (weight * beyond))
    cost["cluster_us"] = [0.0, *(round(float(us), 4) for us in fitted[:3])]
    cost["slices_us"], cost["slice_us"] = (round(float(us), 4) for us in fitted[3:])
