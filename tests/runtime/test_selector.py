"""Plans: they cover the output once, and every one of them computes the same."""

from __future__ import annotations

import copy
import json

import numpy as np
import pytest
import tvm_ffi
from hypothesis import given, settings
from hypothesis import strategies as st
from tolerances import OPERATOR_REL, operator_error

from moonpoly import _ffi_api

TENSOR = tvm_ffi.from_dlpack


def covered(plan):
    """Return how often each element of the output is computed, for each slice of k."""
    count = np.zeros((plan["m"], plan["n"]), dtype=int)
    for region in plan["regions"]:
        count[region["m0"] : region["m1"], region["n0"] : region["n1"]] += (
            region["k1"] - region["k0"]
        )
    return count


@settings(max_examples=200, deadline=None)
@given(
    m=st.integers(1, 400),
    n=st.integers(1, 400),
    k=st.integers(1, 20000),
    mode=st.integers(0, 3),
    threads=st.integers(1, 6),
    model=st.sampled_from(_ffi_api.COST_MODELS),
)
def test_regions_cover_the_output_once(kernels, m, n, k, mode, threads, model):
    plan = json.loads(_ffi_api.plan(kernels.handle, m, n, k, mode, threads, cost_model=model))
    assert (covered(plan) == k).all()
    assert 1 <= plan["threads"] <= threads
    assert plan["predicted_us"] > 0
    for region in plan["regions"]:
        assert region["row_threads"] * region["col_threads"] <= plan["region_threads"]
        assert region["waves"] <= region["tasks"]


def test_selection_is_reproducible(kernels):
    plans = {_ffi_api.plan(kernels.handle, 37, 3072, 768, 0, 2) for _ in range(10)}
    assert len(plans) == 1


def test_small_shapes_stay_on_one_thread(kernels):
    assert json.loads(_ffi_api.plan(kernels.handle, 4, 16, 32, 0, 2))["threads"] == 1


def test_deep_small_outputs_are_cut_along_the_reduction(kernels):
    plans = [json.loads(t) for t in _ffi_api.enumerate_plans(kernels.handle, 8, 16, 50000, 0, 2)]
    assert any(plan["pattern"] == "K" for plan in plans)


@pytest.mark.parametrize("mode", [0, 1, 2])
@pytest.mark.parametrize(("m", "n", "k"), [(31, 45, 70), (17, 5, 300), (9, 33, 600)])
def test_every_plan_computes_the_product(kernels, rng, m, n, k, mode):
    a = rng.standard_normal((m, k), dtype=np.float32)
    b = rng.standard_normal((k, n), dtype=np.float32)
    right = (
        _ffi_api.pack_b(TENSOR(b), False, kernels.panel),
        TENSOR(b),
        TENSOR(np.ascontiguousarray(b.T)),
    )[mode]
    threads = _ffi_api.num_threads()
    texts = _ffi_api.enumerate_plans(kernels.handle, m, n, k, mode, threads)
    assert len({json.loads(text)["pattern"] for text in texts}) >= 3
    assert _ffi_api.plan(kernels.handle, m, n, k, mode, threads) is not None
    for text in texts[:: max(1, len(texts) // 200)]:
        c = np.full((m, n), np.nan, dtype=np.float32)
        _ffi_api.run_plan(kernels.handle, text, TENSOR(a), right, TENSOR(c), mode)
        assert operator_error(c, a, b) <= OPERATOR_REL["float32"], text


@pytest.mark.parametrize(("m", "n", "k"), [(140, 962, 2), (77, 533, 9), (300, 1001, 5)])
@pytest.mark.parametrize("mode", [1, 2])
def test_no_kernel_starts_within_a_panel(kernels, m, n, k, mode):
    texts = _ffi_api.enumerate_plans(kernels.handle, m, n, k, mode, 2)
    assert texts
    for text in texts:
        # Reading a plan checks where its regions start.
        _ffi_api.load_plan(kernels.handle, text)


def test_a_plan_for_another_shape_is_refused(kernels):
    text = _ffi_api.plan(kernels.handle, 8, 32, 16, 1, 1)
    a, b, c = (np.zeros(s, np.float32) for s in ((8, 17), (17, 32), (8, 32)))
    with pytest.raises(ValueError, match="the plan is for"):
        _ffi_api.run_plan(kernels.handle, text, TENSOR(a), TENSOR(b), TENSOR(c), 1)


@pytest.mark.parametrize(
    ("damage", "says"),
    [
        (lambda m: m.pop("grid"), 'lacks "grid"'),
        (lambda m: m.update(schema=9), "schema 9"),
        (lambda m: m.update(panel=5), "panel must be 8 or 16"),
        (lambda m: m.update(dtype="int8"), "expected gemm/float32"),
        (lambda m: m["kernels"][0].update(name="gemm_of_nobody"), "lacks gemm_of_nobody"),
        (lambda m: m["kernels"][0]["cost"]["packed"].pop(), "must hold"),
        (lambda m: m["kernels"].append(m["kernels"][0]), "repeats the kernel"),
        (lambda m: m.update(kernels=[]), "must hold 1..64 kernels"),
    ],
)
def test_a_foreign_manifest_is_refused(kernels, damage, says):
    manifest = copy.deepcopy(kernels.manifest)
    damage(manifest)
    with pytest.raises(ValueError, match=says):
        _ffi_api.KernelSet(json.dumps(manifest), kernels.library)


def test_a_truncated_manifest_is_refused(kernels):
    with pytest.raises(ValueError, match="is not JSON"):
        _ffi_api.KernelSet(json.dumps(kernels.manifest)[:200], kernels.library)
