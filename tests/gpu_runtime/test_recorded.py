"""The selector on launches recorded on an H200: how near it comes to the fastest of them.

``recorded_h200.json`` holds a kernel set's costs and, for 60 drawn shapes with launches overlapping
and not, the launches that took less than twice the fastest one's time: [kernel, cluster, slices,
µs]. It was cut from what ``moonpoly.autotune.gpu.record`` wrote. The costs were fitted to records
of other shapes.
"""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from moonpoly import _ffi_api

RECORDED = json.loads(Path(__file__).with_name("recorded_h200.json").read_text())
# What is not recorded took twice the fastest one's time or more.
UNRECORDED = 2.0


@pytest.fixture(scope="module")
def kernels():
    return _ffi_api.GpuKernelSet(json.dumps(RECORDED["manifest"]), {})


def shares(kernels, cost_model):
    """The fastest launch's µs over the chosen one's, of every shape that one region serves."""
    names = [kernel["name"] for kernel in RECORDED["manifest"]["kernels"]]
    out = []
    for shape in RECORDED["shapes"]:
        us = {(names[i], cluster, slices): t for i, cluster, slices, t in shape["launches"]}
        plan = json.loads(
            _ffi_api.gpu_plan(
                kernels,
                *(shape[axis] for axis in "mnk"),
                access=shape["access"],
                overlap=shape["overlap"],
                cost_model=cost_model,
            )
        )
        if len(plan["regions"]) == 1:
            [region] = plan["regions"]
            chosen = us.get((region["kernel"], region["cluster"], region["slices"]))
            out.append(min(us.values()) / chosen if chosen else 1 / UNRECORDED)
    return np.array(out)


def test_the_choice_is_near_the_fastest_launch(kernels):
    full = shares(kernels, "full")
    assert len(full) >= 60
    assert full.mean() >= 0.94
    assert np.median(full) >= 0.98
    assert full.min() >= 1 / UNRECORDED


def test_neither_waves_nor_task_costs_alone_choose_as_well(kernels):
    full = shares(kernels, "full").mean()
    assert shares(kernels, "waves").mean() < full - 0.05
    assert shares(kernels, "task").mean() < full - 0.2


def test_predictions_follow_the_recorded_times(kernels):
    names = [kernel["name"] for kernel in RECORDED["manifest"]["kernels"]]
    errors = []
    for shape in RECORDED["shapes"]:
        if shape["overlap"]:
            continue
        us = {(names[i], cluster, slices): t for i, cluster, slices, t in shape["launches"]}
        for text in _ffi_api.gpu_enumerate_plans(
            kernels, *(shape[axis] for axis in "mnk"), access=shape["access"], overlap=False
        ):
            plan = json.loads(text)
            region = plan["regions"][0]
            key = region["kernel"], region["cluster"], region["slices"]
            if len(plan["regions"]) == 1 and key in us:
                errors.append(abs(np.log(plan["predicted_us"] / us[key])))
    assert len(errors) > 1000
    assert np.median(errors) < 0.06
    assert np.quantile(errors, 0.9) < 0.25
