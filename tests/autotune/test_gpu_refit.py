"""Cost tables of a GPU are corrected by what launches took."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest
from gpu_runtime import fake_gpu

from moonpoly import _ffi_api
from moonpoly.autotune.gpu.refine import refine
from moonpoly.autotune.gpu.refit import refit
from moonpoly.autotune.gpu.surface import rising

KERNELS = (fake_gpu.kernel(64, 64), fake_gpu.kernel(128, 128), fake_gpu.kernel(64, 32, split=True))


def manifest(scale=lambda k, load: 1.0, split_us=0.0, narrow_us=(0.0, 0.0), **machine):
    """A manifest whose tables are scaled; adding up and narrow stores cost more."""
    out = json.loads(fake_gpu.artifact(*KERNELS)[0])
    out["machine"] |= machine
    for kernel in out["kernels"]:
        grid = [(k, load) for k in fake_gpu.DEPTHS for load in fake_gpu.LOADS]
        us = kernel["cost"]["us"]
        kernel["cost"]["narrow_us"] = list(narrow_us)
        kernel["cost"]["us"] = [x * scale(*at) for x, at in zip(us, grid, strict=True)]
        if kernel["split"]:
            kernel["cost"]["cluster_us"] = [0, *(split_us + x for x in (0.5, 0.6, 0.8))]
    return out


def predictions(manifest, shape, overlap=False):
    kernels = _ffi_api.GpuKernelSet(json.dumps(manifest), {})
    plans = map(json.loads, _ffi_api.gpu_enumerate_plans(kernels, *shape, overlap=overlap))
    singles = [
        (p["predicted_us"], p["regions"][0])
        for p in sorted(plans, key=lambda p: bool(p["overlap"]))
        if len(p["regions"]) == 1
    ]
    return {(r["kernel"], r["cluster"], r["slices"]): us for us, r in singles}


def records(manifest, shapes, overlap=lambda index: False):
    return [
        {
            "m": m,
            "n": n,
            "k": k,
            "access": "tma",
            "overlap": overlap(index),
            "launches": [
                [*key, us] for key, us in predictions(manifest, (m, n, k), overlap(index)).items()
            ],
        }
        for index, (m, n, k) in enumerate(shapes)
    ]


@pytest.fixture(scope="module")
def shapes():
    rng = np.random.default_rng(1)
    drawn = [[int(2**x) for x in rng.uniform((5, 5, 6), (12, 12, 13))] for _ in range(80)]
    return [(m, n // 8 * 8, k) for m, n, k in drawn]


def error(fitted, truth, shapes):
    ratios = [
        abs(math.log(us / predictions(truth, shape)[key]))
        for shape in shapes
        for key, us in predictions(fitted, shape).items()
    ]
    # The rest lies between few records, where nothing says how a table bends.
    return float(np.quantile(ratios, 0.8))


def test_tables_follow_what_was_recorded(shapes):
    truth = manifest(lambda k, load: 1.3 * (k / 1000) ** 0.1 * (1.0 + 0.1 * load), split_us=1.5)
    wrong = manifest()
    fitted = refit(wrong, records(truth, shapes[:60]))
    assert error(wrong, truth, shapes[60:]) > 0.25
    assert error(fitted, truth, shapes[60:]) < 0.08


def test_one_odd_launch_does_not_say_what_adding_up_costs(shapes):
    rows = records(manifest(), shapes[:20])
    split = manifest()["kernels"][2]["name"]
    for row in rows:
        row["launches"] = [x for x in row["launches"] if x[0] != split or x[1] * x[2] == 1]
    shape = next(s for s in shapes if s[2] > 2000)
    key, us = next((k, us) for k, us in predictions(manifest(), shape).items() if k[1:] == (2, 1))
    odd = dict(zip("mnk", shape, strict=True)) | {"access": "tma", "overlap": False}
    fitted = refit(manifest(), [*rows, odd | {"launches": [[*key, 0.5 * us]]}])
    # Half of its time is missing, of which little is believed to be saved by adding up.
    assert fitted["kernels"][2]["cost"]["cluster_us"][1] == pytest.approx(0.5, abs=0.2 * us)


def test_what_narrow_stores_cost_is_learned_apart_from_the_tables(shapes):
    truth = manifest(narrow_us=(0.5, 2.0))
    mixed = [(m, n + (0, 2, 1)[i % 3], k) for i, (m, n, k) in enumerate(shapes)]
    fitted = refit(manifest(), records(truth, mixed))
    for kernel in fitted["kernels"][:2]:
        assert kernel["cost"]["narrow_us"] == pytest.approx([0.5, 2.0], rel=0.2)
    assert error(fitted, truth, shapes) < 0.02


def test_what_overlapping_saves_is_learned(shapes):
    truth = manifest(overlap_us=0.9)
    fitted = refit(manifest(), records(truth, shapes, overlap=lambda index: index % 2 == 0))
    assert fitted["machine"]["overlap_us"] == pytest.approx(0.9, abs=0.1)


def test_no_slice_is_learned_to_take_less_than_nothing(shapes):
    # As few slices of few shapes may say, though many of them then would cost nothing at all.
    truth = manifest()
    for kernel in truth["kernels"]:
        if kernel["split"]:
            kernel["cost"] |= {"slices_us": 2.0, "slice_us": -0.02}
    recorded = records(truth, shapes)
    assert any(slices > 1 for record in recorded for _, _, slices, _ in record["launches"])
    for kernel in refit(truth, recorded)["kernels"]:
        assert kernel["cost"].get("slice_us", 0.0) >= 0.0


def test_launches_that_fetching_bounds_leave_the_tables_alone():
    # k of no whole sector of 32 bytes, of whole ones, of whole lines of 128 bytes.
    shapes = [(2048 + 16 * i, 2048, 2048 + (8, 16, 0)[i % 3]) for i in range(120)]
    truth = manifest(fetch_gbs=[2000.0, 1000.0, 500.0])
    fitted = refit(manifest(), records(truth, shapes))
    assert fitted["machine"]["fetch_gbs"] == pytest.approx([2000, 1000, 500], rel=0.05)
    assert error(fitted, truth, shapes) < 0.05


def test_what_direct_loads_of_few_bytes_fetch_at_is_learned():
    def of(**machine):
        out = json.loads(fake_gpu.artifact(fake_gpu.kernel(32, 32, loads="direct"))[0])
        out["machine"] |= machine
        return out

    rates = [900.0, 700.0, 500.0, 300.0]
    shapes = [(640 + 8 * i, 640, 1024 + (8, 4, 2, 1)[i % 4]) for i in range(240)]
    recorded = records(of(direct_gbs=rates), shapes)
    assert refit(of(), recorded)["machine"]["direct_gbs"] == pytest.approx(rates, rel=0.05)


def test_what_tables_cannot_tell_is_learned_as_a_correction():
    rng = np.random.default_rng(2)
    drawn = [[int(2**x) for x in rng.uniform((5, 5, 8), (11, 11, 11))] for _ in range(160)]
    shapes = [(m, n // 8 * 8 + 8, k) for m, n, k in drawn]

    def slower(shape, overlap, us):
        """Long launches lose by overlapping, short ones gain, and rows of odd lengths cost."""
        us *= 1.0 if shape[2] % 64 == 0 else 1.25
        return us * (1.3 if us > 12.0 else 0.8) if overlap else us

    def measured(wanted):
        rows = [
            row
            for overlap in (False, True)
            for row in records(manifest(), wanted, lambda _, way=overlap: way)
        ]
        for row in rows:
            shape = row["m"], row["n"], row["k"]
            apart = predictions(manifest(), shape)
            for launch in row["launches"]:
                launch[3] = slower(shape, row["overlap"], apart[tuple(launch[:3])])
        return rows

    fitted = refit(manifest(), measured(shapes[:120]))
    kernels = _ffi_api.GpuKernelSet(json.dumps(fitted), {})
    right = [
        plan["overlap"] == (plan["regions"][0]["us"] < 12.0)
        for shape in shapes[120:]
        for plan in [json.loads(_ffi_api.gpu_plan(kernels, *shape))]
        if not 8.0 < plan["regions"][0]["us"] < 18.0
    ]
    assert len(right) >= 20
    assert np.mean(right) >= 0.9


def test_right_tables_stay_as_they_are(shapes):
    right = manifest()
    fitted = refit(right, records(right, shapes[:30]))
    for before, after in zip(right["kernels"], fitted["kernels"], strict=True):
        assert after["cost"]["us"] == pytest.approx(before["cost"]["us"], rel=0.01)


def test_a_kernel_without_records_keeps_its_table():
    right = manifest()
    assert refit(right, [])["kernels"] == right["kernels"]


def test_a_corrected_table_rises_along_both_axes_and_keeps_what_rose():
    rng = np.random.default_rng(0)
    table = np.exp(rng.normal(0, 0.3, (6, 5)) + np.arange(6)[:, None] + np.arange(5) * 0.5)
    made = rising(table)
    assert (np.diff(made, axis=0) >= 0).all()
    assert (np.diff(made, axis=1) >= 0).all()
    assert np.abs(np.log(made / table)).max() < 1.5
    assert rising(made) == pytest.approx(made)


def test_costs_are_moved_toward_new_launches_and_others_stay(shapes):
    short = [(m, n, 64) for m, n, _ in shapes]
    truth, wrong = manifest(), manifest()
    cost = wrong["kernels"][0]["cost"]
    cost["us"] = [
        us / (3.0 if i < len(cost["us"]) // 4 else 1.0) for i, us in enumerate(cost["us"])
    ]
    refined = refine(wrong, records(truth, short[:60]))
    held_out = short[60:]
    assert error(wrong, truth, held_out) > math.log(2.0)
    assert error(refined, truth, held_out) < 0.3 * error(wrong, truth, held_out)
    # What was right is as it was.
    for before, after in zip(wrong["kernels"][1:], refined["kernels"][1:], strict=True):
        assert np.allclose(before["cost"]["us"], after["cost"]["us"], rtol=0.02)
        assert "correction" not in after["cost"]


def test_weights_are_moved_from_what_they_were(shapes):
    truth = manifest()
    for kernel in truth["kernels"]:
        kernel["cost"]["correction"] = [0.2] + [0.0] * 268
    known = json.loads(json.dumps(truth))
    known["kernels"][0]["cost"]["correction"][0] = 0.1
    moved = known["kernels"][0]["name"]

    def ahead(fitted):
        """How much faster than the others the moved kernel seems, that it isn't."""
        ratios = {True: [], False: []}
        for shape in shapes[60:]:
            told = predictions(truth, shape)
            for key, us in predictions(fitted, shape).items():
                ratios[key[0] == moved].append(math.log(told[key] / us))
        return np.mean(ratios[True]) - np.mean(ratios[False])

    refined = refine(known, records(truth, shapes[:60]))
    assert ahead(known) > 0.05
    assert abs(ahead(refined)) < 0.2 * ahead(known)
    assert error(refined, truth, shapes[60:]) < 0.02
    assert len(refined["kernels"][0]["cost"]["correction"]) == 269
    assert refined != known
