"""Choosing plans for a GPU from recorded costs; no GPU takes part."""

from __future__ import annotations

import json

import numpy as np
import pytest
from gpu_runtime import fake_gpu

from moonpoly import _ffi_api

TILES = ((64, 16), (64, 32), (64, 64), (128, 64), (128, 128), (128, 144), (128, 256), (192, 144))
KERNELS = (
    *(fake_gpu.kernel(um, un) for um, un in TILES),
    *(fake_gpu.kernel(un, um, swapped=True) for um, un in TILES[:4]),
    fake_gpu.kernel(64, 32, split=True),
    fake_gpu.kernel(64, 64, loads="strided", split=True),
    fake_gpu.kernel(128, 64, loads="strided"),
)


def kernel_set(*kernels, **changes):
    return _ffi_api.GpuKernelSet(fake_gpu.artifact(*(kernels or KERNELS), **changes)[0], {})


@pytest.fixture(scope="module")
def kernels():
    return kernel_set()


def plan(kernels, m, n, k, **options):
    return json.loads(_ffi_api.gpu_plan(kernels, m, n, k, **options))


def every(kernels, m, n, k, **options):
    return [json.loads(p) for p in _ffi_api.gpu_enumerate_plans(kernels, m, n, k, **options)]


def names(plan):
    return [region["kernel"] for region in plan["regions"]]


SHAPES = [
    (1, 1, 1),
    (4096, 4096, 4096),
    (1715, 4096, 4096),
    (17, 24, 65536),
    (24000, 16, 64),
    (130, 5000, 72),
    (3000, 3000, 16),
]


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("overlap", [True, False])
def test_the_choice_is_the_cheapest_of_all_plans(kernels, shape, overlap):
    chosen = plan(kernels, *shape, overlap=overlap)
    plans = every(kernels, *shape, overlap=overlap)
    assert chosen in plans
    # Second regions are tried for a few starts only, and have to be worth it.
    pairs = {True: 1.1, False: 1.0}
    least = min(p["predicted_us"] * pairs[len(p["regions"]) == 2] for p in plans)
    assert chosen["predicted_us"] <= 1.03 * least


def test_a_wave_that_is_just_full_beats_one_that_overflows():
    # 132 tiles of 128 x 144 are one wave; of 128 x 128 they are 1.12, at nearly the same cost each.
    pair = kernel_set(fake_gpu.kernel(128, 128), fake_gpu.kernel(128, 144))
    chosen = plan(pair, 11 * 128, 12 * 144, 4096)
    assert names(chosen) == ["gemm_f16_128x144"]
    assert chosen["regions"][0]["waves"] == 1


def test_the_tiles_of_a_broken_wave_may_go_to_another_kernel(kernels):
    # One wave of 128 x 256 and a row of tiles more.
    shape = 132 * 128 + 16, 256, 8192
    chosen = plan(kernels, *shape)
    assert chosen["pattern"] == "II"
    assert len(set(names(chosen))) == 2
    assert [(r["m0"], r["m1"]) for r in chosen["regions"]] == [(0, 16896), (16896, 16912)]


def test_a_long_reduction_into_a_small_output_is_shared(kernels):
    chosen = plan(kernels, 64, 32, 65536)
    region = chosen["regions"][0]
    assert chosen["pattern"] == "K"
    assert region["cluster"] * region["slices"] >= 32
    assert region["blocks"] == region["cluster"] * region["slices"]
    assert chosen["predicted_us"] < 0.2 * max(
        p["predicted_us"] for p in every(kernels, 64, 32, 65536)
    )


def test_a_plan_that_costs_less_than_nothing_is_still_a_plan():
    entry, image = fake_gpu.kernel(64, 32, split=True)
    entry["cost"]["cluster_us"] = [0.0, -50.0, -60.0, -70.0]
    few = kernel_set((entry, image))
    assert plan(few, 300, 400, 5000)["predicted_us"] < 0
    assert plan(few, 300, 400, 5000) in every(few, 300, 400, 5000)


def test_no_reduction_is_cut_into_more_parts_than_it_has_steps(kernels):
    for p in every(kernels, 64, 32, 200):
        assert all(r["cluster"] * r["slices"] <= 4 for r in p["regions"])


@pytest.mark.parametrize(
    ("options", "marks"),
    [
        ({"access": "strided"}, ("strided",)),
        ({"layout": "nn"}, ("strided",)),
        ({"layout": "tt"}, ("strided",)),
    ],
)
def test_only_kernels_that_can_read_the_operands_are_considered(kernels, options, marks):
    for p in every(kernels, 500, 300, 700, **options):
        assert all(name.endswith(marks) for name in names(p))


def test_direct_kernels_serve_what_they_can_count_and_are_shared_in_slices():
    several = kernel_set(
        fake_gpu.kernel(32, 16, loads="direct", split=True),
        fake_gpu.kernel(64, 32, loads="residue", split=True),
        fake_gpu.kernel(64, 32, loads="strided", split=True),
    )

    def direct(k, **options):
        regions = [p["regions"][0] for p in every(several, 60, 30, k, **options)]
        return [r for r in regions if r["kernel"].endswith("_direct")]

    for access in ("tma", "residue"):
        found = direct(5000, access=access)
        assert {r["cluster"] for r in found} == {1, 2, 4, 8}
        # 79 steps: as many slices as leave each part four of them, and fewer.
        assert {r["slices"] for r in found if r["cluster"] == 1} == {1, 4, 9, 19}
        assert {r["slices"] for r in found if r["cluster"] == 8} == {1, 2}
    assert not direct(5000, access="strided")
    assert not direct(5000, layout="nn")
    assert direct(1 << 28, access="residue")
    assert not direct((1 << 28) + 1, access="residue")


def test_vectors_longer_than_their_kernels_can_count_go_to_others():
    several = kernel_set(
        fake_gpu.kernel(1, 8, loads="gemv", split=True), fake_gpu.kernel(64, 32, split=True)
    )
    assert any(name.endswith("_gemv") for p in every(several, 1, 8, 1 << 28) for name in names(p))
    for p in every(several, 1, 8, (1 << 28) + 8):
        assert names(p) == ["gemm_f16_64x32_k"]


def test_short_plans_overlap_and_long_ones_do_not(kernels):
    short, long = plan(kernels, 64, 64, 64), plan(kernels, 8192, 8192, 8192)
    assert (short["overlap"], long["overlap"]) == (True, False)
    apart = plan(kernels, 64, 64, 64, overlap=False)
    assert not apart["overlap"]
    assert apart["predicted_us"] - short["predicted_us"] == pytest.approx(0.6, abs=1e-3)


def test_no_plan_moves_its_operands_faster_than_the_machine_can(kernels):
    m, n, k = 60_000, 16, 512
    least_us = 1.0 + 2e-3 * (m * k + n * k + m * n) / 5500
    assert all(p["predicted_us"] >= least_us - 0.6 for p in every(kernels, m, n, k))


def test_rows_that_are_no_whole_lines_of_the_cache_are_fetched_slower(kernels):
    slow = kernel_set(machine=fake_gpu.MACHINE | {"fetch_gbs": [5000.0, 500.0, 250.0]})
    for k, gbs in ((1024, 5000), (1040, 500), (1032, 250)):
        for p in every(slow, 512, 1024, k, overlap=False):
            region = p["regions"][0]
            tile_m, tile_n = region["tile"]
            if len(p["regions"]) == 1 and "strided" not in region["kernel"]:
                items = k * (-(-1024 // tile_n) * 512 + -(-512 // tile_m) * 1024)
                assert p["predicted_us"] >= 1.0 + 2e-3 * items / gbs - 1e-2


def test_direct_loads_of_few_bytes_fetch_slower():
    machine = fake_gpu.MACHINE | {"direct_gbs": [5000.0, 400.0, 200.0, 100.0]}
    slow = kernel_set(fake_gpu.kernel(32, 16, loads="direct"), machine=machine)
    for k, gbs in ((1024, 5000), (1028, 400), (1026, 200), (1025, 100)):
        [p] = [
            p
            for p in every(slow, 320, 160, k, access="residue", overlap=False)
            if len(p["regions"]) == 1
        ]
        assert p["predicted_us"] >= 1.0 + 2e-3 * k * 10 * (320 + 160) / gbs - 1e-2


def test_narrow_stores_take_longer():
    entry, image = fake_gpu.kernel(128, 128)
    entry["cost"]["narrow_us"] = [0.5, 2.0]
    one = kernel_set((entry, image))

    def us(n, rows=1):
        [p] = [p for p in every(one, rows, n, 64, overlap=False) if p["pattern"] == "I"]
        return p["predicted_us"]

    assert us(122) - us(120) == pytest.approx(0.5, abs=1e-3)
    assert us(121) - us(120) == pytest.approx(2.0, abs=1e-3)


def test_kernels_of_any_alignment_are_left_out_where_others_serve(kernels):
    for p in every(kernels, 500, 300, 704):
        assert not any("strided" in name for name in names(p))


def test_costs_are_those_of_the_table_at_its_points():
    loads, depths = (0.5, 1.0, 2.0), (64, 128)
    entry, image = fake_gpu.kernel(128, 128)
    entry["cost"]["us"] = [2, 3, 5, 4, 6, 10]
    grid = {"grid": {"k": list(depths), "load": list(loads)}}
    one = kernel_set((entry, image), **grid)

    def us(tiles, k):
        [p] = [p for p in every(one, 128 * tiles, 128, k, overlap=False) if p["pattern"] == "I"]
        return p["predicted_us"]

    assert [us(66, 64), us(132, 64), us(264, 64)] == pytest.approx([2, 3, 5])
    assert [us(66, 128), us(132, 128), us(264, 128)] == pytest.approx([4, 6, 10])
    assert us(99, 64) == pytest.approx(2.5)
    # Half a wave more costs what half a wave does of a whole one, launch aside: (2 - 1) / (3 - 1).
    assert us(198, 64) == pytest.approx(3 + 2 * 0.5)
    # Beyond the axes: another wave costs as much as the last, depth as much as the last step.
    assert us(396, 64) == pytest.approx(7)
    assert us(132, 256) == pytest.approx(12)


def test_the_partial_models_rank_by_one_factor(kernels):
    shape = 1000, 1000, 1000
    by_waves = plan(kernels, *shape, cost_model="waves")
    by_task = plan(kernels, *shape, cost_model="task")
    plans = every(kernels, *shape)
    assert by_waves["regions"][0]["waves"] == min(p["regions"][0]["waves"] for p in plans)
    assert names(by_task) == ["gemm_f16_64x16"] or by_task["pattern"] == "K"


TERMS = 269


def corrected(weights_of):
    """The kernels, each with the correction that a function of its name gives."""
    manifest = json.loads(fake_gpu.artifact(*KERNELS)[0])
    for kernel in manifest["kernels"]:
        kernel["cost"]["correction"] = weights_of(kernel["name"])
    return _ffi_api.GpuKernelSet(json.dumps(manifest), {})


def overlap_terms(kernels, shape, region):
    """The numbers of the terms that only an overlapping launch has, and their values."""
    launches = np.from_dlpack(_ffi_api.gpu_launches(kernels, *shape)).reshape(-1, 7 + TERMS)
    names = [k["name"] for k in json.loads(fake_gpu.artifact(*KERNELS)[0])["kernels"]]
    index = names.index(region["kernel"])
    key = [index, region["cluster"], region["slices"]]
    apart, beside = (
        next(row[7:] for row in launches if list(row[:4]) == [*key, overlap])
        for overlap in (False, True)
    )
    return {i: b for i, (a, b) in enumerate(zip(apart, beside, strict=True)) if a != b}


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_corrections_scale_what_tables_say(kernels, shape):
    # The first term is the same for all launches: one more doubles what is predicted.
    twice = corrected(lambda name: [1.0] + [0.0] * (TERMS - 1))
    for before, after in zip(
        every(kernels, *shape, overlap=False), every(twice, *shape, overlap=False), strict=True
    ):
        if len(before["regions"]) == 1:
            us = before["regions"][0]["us"]
            assert after["predicted_us"] == pytest.approx(2 * us, rel=1e-3)
            assert after["regions"][0]["us"] == pytest.approx(us)


def test_a_corrected_kernel_is_chosen_less(kernels):
    shape = (1024, 1024, 512)
    first = names(plan(kernels, *shape, overlap=False))[0]
    slower = corrected(lambda name: [float(name == first)] + [0.0] * (TERMS - 1))
    assert first not in names(plan(slower, *shape, overlap=False))


def test_corrections_decide_whether_launches_overlap(kernels):
    shape = (256, 256, 256)
    [region] = plan(kernels, *shape)["regions"]
    found = overlap_terms(kernels, shape, region)
    assert found
    for sign, overlaps in ((1.0, False), (-1.0, True)):
        weights = [sign * found.get(i, 0.0) for i in range(TERMS)]
        chosen = plan(corrected(lambda name, given=weights: given), *shape)
        assert chosen["overlap"] == overlaps
    # What may not overlap does not, however much it would save.
    assert not plan(corrected(lambda name: weights), *shape, overlap=False)["overlap"]


def broken(change, match):
    manifest = json.loads(fake_gpu.artifact(*KERNELS)[0])
    change(manifest)
    with pytest.raises(ValueError, match=match):
        _ffi_api.GpuKernelSet(json.dumps(manifest), {})


def test_manifests_that_make_no_sense_are_refused():
    broken(lambda m: m.update(schema=7), "has schema 7")
    broken(lambda m: m.update(dtype="float64"), "gemm/float64, expected float16")
    broken(lambda m: m["grid"].update(load=[0.5, 1.5]), "1 among them")
    broken(lambda m: m["grid"].update(k=[64, 64]), "increasing")
    broken(lambda m: m["machine"].update(l2_gbs=0), "l2_gbs must be positive")
    broken(
        lambda m: m["machine"].update(fetch_gbs=[1, 0, 1]), "fetch_gbs must hold 3 positive numbers"
    )
    broken(lambda m: m["kernels"][0]["cost"].update(narrow_us=[1]), "2 numbers of 0 or more")
    broken(
        lambda m: m["kernels"][0].update(loads="telepathy"),
        "one of tma, async, residue, direct, gemv, strided",
    )
    broken(lambda m: m["kernels"][0].update(params=["x_map9"]), "one of x_map")
    broken(lambda m: m["kernels"][0]["cost"].update(us=[1, 2]), "15 positive microseconds")
    broken(lambda m: m["kernels"][0].update(cluster_p=8, cluster_q=2), "among 16 blocks")
    broken(lambda m: m["kernels"][0]["cost"].update(correction=[0.0]), "hold 269 numbers, got 1")
    broken(lambda m: m["kernels"].append(m["kernels"][0]), "repeats the kernel")
    broken(lambda m: m.update(kernels=[]), "1..96 kernels")


def test_plans_that_do_not_cover_the_output_are_refused(fake_driver):
    ready = _ffi_api.GpuKernelSet(*fake_gpu.artifact(*KERNELS))
    tensors = [
        fake_gpu.OnGpu(fake_gpu.aligned(shape, 0)) for shape in ((64, 64), (64, 64), (64, 64))
    ]
    import tvm_ffi

    a, b, c = map(tvm_ffi.from_dlpack, tensors)

    def run(**changes):
        chosen = plan(ready, 64, 64, 64, layout="nn")
        chosen["regions"][0] |= changes
        _ffi_api.gpu_run_plan(ready, json.dumps(chosen), a, b, c)

    run()
    for changes, match in (
        ({"m1": 32}, "cover 2048 elements"),
        ({"m1": 65}, "can't serve"),
        ({"kernel": "unknown"}, "lacks"),
        ({"kernel": "gemm_f16_64x16"}, "can't serve"),
        ({"kernel": "gemm_f16_128x64_strided", "slices": 4}, "can't do"),
    ):
        with pytest.raises(ValueError, match=match):
            run(**changes)
