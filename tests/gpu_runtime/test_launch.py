"""The GPU launcher against a driver that the host plays: grids, maps and arguments must compute."""

from __future__ import annotations

import itertools
import json

import numpy as np
import pytest
import tvm_ffi
from gpu_runtime import fake_gpu
from gpu_runtime.fake_gpu import OnGpu, aligned
from tolerances import OPERATOR_REL, rounded_operator_error

from moonpoly import _ffi_api

# Split tilings that one compiled function stands behind.
SPLIT_TILINGS = fake_gpu.widths((40, 64), (16, 64), swapped=True, split=True)
KERNELS = (
    fake_gpu.kernel(64, 32),
    fake_gpu.kernel(16, 64, swapped=True),
    fake_gpu.kernel(64, 32, cluster=(2, 1)),
    fake_gpu.kernel(64, 128, cluster=(1, 2), swapped=True),
    *fake_gpu.widths((64, 24), (64, 40)),
    *fake_gpu.widths((8, 64), (24, 64), swapped=True, cluster=(2, 1)),
    *SPLIT_TILINGS,
    fake_gpu.kernel(64, 24, split=True),
    fake_gpu.kernel(64, 32, loads="residue", split=True),
    fake_gpu.kernel(16, 64, loads="residue", split=True, swapped=True),
    fake_gpu.kernel(32, 16, loads="direct", split=True),
    fake_gpu.kernel(16, 64, loads="direct", split=True, swapped=True),
    fake_gpu.kernel(1, 8, loads="gemv", split=True),
    fake_gpu.kernel(4, 1, loads="gemv", split=True),
    fake_gpu.kernel(64, 32, loads="strided", split=True),
    fake_gpu.kernel(32, 64, loads="strided", split=True, swapped=True),
    fake_gpu.kernel(64, 64, loads="strided"),
)
NAMES = [entry["name"] for entry, _ in KERNELS]
SHAPES = [
    (1, 1, 1),
    (64, 32, 64),
    (63, 31, 8),
    (65, 33, 72),
    (7, 129, 40),
    (129, 5, 24),
    (1, 130, 77),
    (130, 1, 77),
]


@pytest.fixture(scope="module")
def kernels(fake_driver):
    return _ffi_api.GpuKernelSet(*fake_gpu.artifact(*KERNELS))


def close_to(c, a, b):
    assert rounded_operator_error(c, a, b, "float16") <= OPERATOR_REL["float16"]


def operands(rng, m, n, k, pitch=8, offset=0):
    """Return A (m, k), the transpose of B (n, k), C (m, n), rows ``pitch`` elements apart."""
    width = -(-k // pitch) * pitch
    a, b = aligned((m, width), 0), aligned((n, width), 0)
    a[:, :k], b[:, :k] = rng.uniform(-1, 1, (m, k)), rng.uniform(-1, 1, (n, k))
    guarded = aligned((m, n + 16), np.nan, offset)
    return a[:, :k], b[:, :k].T, guarded[:, :n], guarded


def run(kernels, a, b, c, plan=None, overlap=True):
    tensors = [tvm_ffi.from_dlpack(OnGpu(x)) for x in (a, b, c)]
    if plan is None:
        _ffi_api.gpu_gemm(kernels, *tensors, overlap)
    else:
        _ffi_api.gpu_run_plan(kernels, plan, *tensors)


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("name", NAMES)
def test_every_kernel_covers_the_output_once(kernels, rng, name, shape):
    m, n, k = shape
    a, b, c, guarded = operands(rng, *shape)
    plans = [json.loads(p) for p in _ffi_api.gpu_enumerate_plans(kernels, m, n, k)]
    plans = [p for p in plans if [r["kernel"] for r in p["regions"]] == [name]]
    for plan in plans:
        guarded[...] = np.nan
        run(kernels, a, b, c, json.dumps(plan))
        close_to(c, a, b)
        assert np.isnan(guarded[:, n:]).all()


def test_two_regions_meet_without_gap_or_overlap(kernels, fake_driver, rng):
    m, n, k = 64 * 140, 40, 16
    a, b, c, _ = operands(rng, m, n, k)
    plans = [json.loads(p) for p in _ffi_api.gpu_enumerate_plans(kernels, m, n, k)]
    pairs = {plan["pattern"]: plan for plan in plans if len(plan["regions"]) == 2}
    assert set(pairs) == {"II", "III"}
    for plan in pairs.values():
        c[...] = np.nan
        fake_driver.fake_log()
        run(kernels, a, b, c, json.dumps(plan))
        close_to(c, a, b)
        log = fake_driver.fake_log().decode().splitlines()
        assert len(log) == 2


@pytest.mark.parametrize("shape", [(70, 20, 1100), (61, 1, 1030), (1, 9, 1100)], ids=str)
def test_kernels_that_load_into_registers_share_tiles_in_slices(kernels, rng, shape):
    m, n, k = shape
    a, b, c, _ = operands(rng, m, n, k)
    ways = set()
    for text in _ffi_api.gpu_enumerate_plans(kernels, m, n, k):
        region = json.loads(text)["regions"][0]
        loads = region["kernel"].rpartition("_")[2]
        if region["slices"] > 1 and loads in ("direct", "gemv"):
            c[...] = np.nan
            run(kernels, a, b, c, text)
            close_to(c, a, b)
            ways.add((loads, region["cluster"] > 1))
    expected = {"direct"} if min(m, n) > 1 else {"direct", "gemv"}
    assert ways == {(loads, several) for loads in expected for several in (False, True)}


def test_a_reduction_is_shared_by_clusters_and_slices(kernels, fake_driver, rng):
    m, n, k = 70, 20, 700
    a, b, c, _ = operands(rng, m, n, k)
    plans = [json.loads(p) for p in _ffi_api.gpu_enumerate_plans(kernels, m, n, k)]
    splits = {}
    for plan in plans:
        if plan["pattern"] == "K":
            c[...] = np.nan
            run(kernels, a, b, c, json.dumps(plan))
            close_to(c, a, b)
            region = plan["regions"][0]
            splits[region["cluster"], region["slices"]] = region["blocks"]
    # 11 steps of the reduction: no more parts than that.
    assert {(1, 2), (2, 1), (8, 1), (1, 11), (4, 2), (2, 5)} <= set(splits)
    assert max(cluster * slices for cluster, slices in splits) == 11


@pytest.mark.parametrize(
    "shape", [(41, 130, 1030), (1, 65, 1100), (17, 63, 712), (80, 1, 520)], ids=str
)
def test_split_tilings_of_one_program_share_reductions(kernels, rng, shape):
    m, n, k = shape
    a, b, c, guarded = operands(rng, *shape)
    names = {entry["name"] for entry, _ in SPLIT_TILINGS}
    ways = set()
    for text in _ffi_api.gpu_enumerate_plans(kernels, m, n, k):
        region = json.loads(text)["regions"][0]
        if region["kernel"] in names:
            guarded[...] = np.nan
            run(kernels, a, b, c, text)
            close_to(c, a, b)
            assert np.isnan(guarded[:, n:]).all()
            ways.add((region["kernel"], region["cluster"] > 1, region["slices"] > 1))
    assert ways == set(itertools.product(names, (False, True), (False, True)))


def test_a_split_tiling_has_memory_for_its_own_partial_sums(fake_driver, rng):
    least_bytes = [1024 + 40 * 68 * 4, 1024 + 16 * 68 * 4]
    rings = [
        {"base_bytes": 1024, "slot_bytes": 2048, "least_bytes": least, "slots": 20}
        for least in least_bytes
    ]
    tilings = [
        (entry | {"ring": ring}, image)
        for (entry, image), ring in zip(SPLIT_TILINGS, rings, strict=True)
    ]
    ready = _ffi_api.GpuKernelSet(*fake_gpu.artifact(*tilings))
    a, b, c, _ = operands(rng, 40, 64, 512)
    for (entry, _), least in zip(tilings, least_bytes, strict=True):
        for text in _ffi_api.gpu_enumerate_plans(ready, 40, 64, 512):
            region = json.loads(text)["regions"][0]
            if region["kernel"] == entry["name"]:
                fake_driver.fake_log()
                run(ready, a, b, c, text)
                close_to(c, a, b)
                # Of eight steps a part has some; sums lie where its slots were.
                slots = -(-8 // (region["cluster"] * region["slices"]))
                expected = max(1024 + slots * 2048, least)
                assert f"shared={expected} " in fake_driver.fake_log().decode()


@pytest.mark.parametrize("shape", [(70, 66, 37), (2, 5, 1), (9, 130, 200), (64, 32, 129)], ids=str)
@pytest.mark.parametrize("offset", [0, 3])
def test_rows_anywhere_are_read_by_all_kinds_but_maps(kernels, fake_driver, rng, shape, offset):
    m, n, k = shape
    a, b = aligned((m, k), 0, offset), aligned((n, k), 0, offset)
    a[...], b[...] = rng.uniform(-1, 1, (m, k)), rng.uniform(-1, 1, (n, k))
    loads = set()
    for plan in _ffi_api.gpu_enumerate_plans(kernels, m, n, k, access="residue"):
        c = aligned((m, n))
        if k % 8 or offset:
            fake_driver.fake_log()
            run(kernels, a, b.T, c, plan)
            close_to(c, a, b.T)
            loads.add(fake_driver.fake_log().split()[0])
    assert loads == ({b"residue", b"direct", b"strided"} if k % 8 or offset else set())


def test_every_layout_and_stride_has_a_kernel(kernels, fake_driver, rng):
    m, n, k = 33, 17, 40
    a, b = rng.uniform(-1, 1, (m, k)), rng.uniform(-1, 1, (k, n))
    lay = {"n": np.ascontiguousarray, "t": np.asfortranarray}
    for first, of_a in lay.items():
        for second, of_b in lay.items():
            c = aligned((m, n))
            fake_driver.fake_log()
            fa, fb = of_a(a.astype(np.float16)), of_b(b.astype(np.float16))
            run(kernels, fa, fb, c)
            close_to(c, fa, fb)
            strided = fake_driver.fake_log().startswith(b"strided")
            assert strided == ((first, second) != ("n", "t"))
    repeated = np.broadcast_to(a[:1].astype(np.float16), (m, k))
    run(kernels, repeated, fb, c)
    close_to(c, repeated, fb)


@pytest.mark.parametrize(
    ("offset", "n", "vector"), [(0, 32, 8), (4, 32, 2), (2, 30, 2), (1, 32, 1)]
)
def test_kernels_are_told_how_rows_of_c_are_aligned(kernels, fake_driver, rng, offset, n, vector):
    a, b, c, _ = operands(rng, 64, n, 64, offset=offset)
    fake_driver.fake_log()
    run(kernels, a, b, c)
    close_to(c, a, b)
    assert f"vector={vector} " in fake_driver.fake_log().decode()


def test_tensor_maps_are_encoded_once(kernels, fake_driver, rng):
    a, b, c, _ = operands(rng, 64, 64, 64)
    run(kernels, a, b, c)
    before = fake_driver.fake_num_maps()
    for _ in range(5):
        run(kernels, a, b, c)
    assert fake_driver.fake_num_maps() == before


def test_launches_overlap_only_when_allowed(kernels, fake_driver, rng):
    a, b, c, _ = operands(rng, 64, 64, 64)
    for allowed in (True, False):
        fake_driver.fake_log()
        run(kernels, a, b, c, overlap=allowed)
        assert f"overlap={int(allowed)}" in fake_driver.fake_log().decode()


@pytest.mark.parametrize("fitting", [1, 3])
def test_blocks_of_an_overlapped_launch_are_spread_over_the_gpu(fake_driver, rng, fitting):
    entry, image = fake_gpu.kernel(64, 64)
    entry["blocks"] = fitting
    entry["ring"] = {"base_bytes": 1024, "slot_bytes": 16384, "least_bytes": 2048, "slots": 3}
    machine = fake_gpu.MACHINE | {"lone_bytes": 116736}
    ready = _ffi_api.GpuKernelSet(*fake_gpu.artifact((entry, image), machine=machine))

    def shared_bytes(tiles, overlap):
        a, b, c, _ = operands(rng, 64 * tiles, 64, 64)
        fake_driver.fake_log()
        run(ready, a, b, c, overlap=overlap)
        return int(fake_driver.fake_log().decode().split("shared=")[1].split()[0])

    assert shared_bytes(4, overlap=True) == 116736
    assert shared_bytes(4, overlap=False) == 1024 + 16384
    if fitting == 1:
        # More tiles than multiprocessors: the blocks go on, two slots of the ring are of use.
        assert shared_bytes(200, overlap=False) == 1024 + 2 * 16384
    else:
        # Two blocks have a multiprocessor, so that no third one may fit beside them.
        assert shared_bytes(200, overlap=True) == 2 * 116736 // 3


def test_clusters_that_leave_multiprocessors_idle_have_room_for_more_on_the_others(
    fake_driver, rng
):
    entry, image = fake_gpu.kernel(16, 64, split=True)
    entry["blocks"] = 3
    entry["ring"] = {"base_bytes": 1024, "slot_bytes": 2048, "least_bytes": 2048, "slots": 3}
    machine = fake_gpu.MACHINE | {"lone_bytes": 116736, "cluster_slots": [132, 66, 30, 15]}
    ready = _ffi_api.GpuKernelSet(*fake_gpu.artifact((entry, image), machine=machine))

    def shared_bytes(clusters):
        a, b, c, _ = operands(rng, 16 * clusters, 64, 1024)
        texts = _ffi_api.gpu_enumerate_plans(ready, 16 * clusters, 64, 1024, overlap=True)
        plan = next(
            text
            for text in texts
            for each in [json.loads(text)]
            for region in [each["regions"][0]]
            if each["overlap"] and (region["cluster"], region["slices"]) == (8, 1)
        )
        fake_driver.fake_log()
        run(ready, a, b, c, plan=plan)
        close_to(c, a, b)
        return int(fake_driver.fake_log().decode().split("shared=")[1].split()[0])

    # All have a multiprocessor for each of their blocks, or one of them has to share.
    assert shared_bytes(15) == 116736
    assert shared_bytes(16) == 2 * 116736 // 3


@pytest.mark.parametrize(
    ("tiles", "cluster"), [(40, 1), (50, 4), (60, 4), (61, 1), (72, 1), (73, 4), (119, 4), (131, 2)]
)
def test_neighbours_of_an_overlapped_launch_are_kept_together_where_it_pays(
    fake_driver, rng, tiles, cluster
):
    machine = fake_gpu.MACHINE | {"cluster_slots": [132, 66, 30, 15]}
    ready = _ffi_api.GpuKernelSet(*fake_gpu.artifact(fake_gpu.kernel(16, 64), machine=machine))
    a, b, c, guarded = operands(rng, 16 * tiles, 40, 24)
    for overlap, expected in ((False, 1), (True, cluster)):
        guarded[...] = np.nan
        fake_driver.fake_log()
        run(ready, a, b, c, overlap=overlap)
        log = dict(word.split("=") for word in fake_driver.fake_log().decode().split()[1:])
        assert int(log["cluster"]) == expected
        assert int(log["grid"]) == -(-tiles // expected) * expected
        close_to(c, a, b)
        assert np.isnan(guarded[:, 40:]).all()


def test_leading_dimensions_are_folded_into_rows(kernels, rng):
    a, b = operands(rng, 60, 24, 32)[:2]
    out = aligned((3, 4, 5, 24))
    run(kernels, a.reshape(3, 4, 5, 32), b, out)
    close_to(out.reshape(60, 24), a, b)


@pytest.mark.parametrize("shape", [(0, 5, 8), (5, 0, 8), (5, 7, 0)], ids=str)
def test_empty_problems_launch_nothing_and_fill_zeros(kernels, fake_driver, shape):
    m, n, k = shape
    a, b, c = np.empty((m, k), np.float16), np.empty((k, n), np.float16), aligned((m, n))
    fake_driver.fake_log()
    run(kernels, a, b, c)
    assert fake_driver.fake_log() == b""
    assert not c.any()


def test_operands_that_do_not_fit_are_refused(kernels, rng):
    a, b, c, _ = operands(rng, 16, 24, 32)
    with pytest.raises(ValueError, match=r"expected A .* and \(24, 16\)"):
        run(kernels, a, b, aligned((24, 16)))
    with pytest.raises(TypeError, match="A must be float16, got float32"):
        run(kernels, a.astype(np.float32), b, c)
    with pytest.raises(ValueError, match="C must have a contiguous last dimension"):
        run(kernels, a, b, aligned((24, 16)).T)
    with pytest.raises(ValueError, match=r"contiguous dimension, got strides 64 and 2"):
        run(kernels, aligned((16, 64))[:, ::2], b, c)
    with pytest.raises(TypeError, match="on a CUDA device"):
        tensors = [tvm_ffi.from_dlpack(x) for x in (a, b.copy(), np.ascontiguousarray(c))]
        _ffi_api.gpu_gemm(kernels, *tensors, True)
    few = _ffi_api.GpuKernelSet(*fake_gpu.artifact(*KERNELS[:5]))
    with pytest.raises(ValueError, match=r"no micro-kernel .* layout nn"):
        run(few, a, np.ascontiguousarray(b), c)


def test_a_graph_captures_calls_and_is_timed(kernels, rng):
    stream = _ffi_api.gpu_create_stream(0)
    a, b, c = (tvm_ffi.from_dlpack(OnGpu(x)) for x in operands(rng, 64, 64, 64)[:3])
    plan = _ffi_api.gpu_plan(kernels, 64, 64, 64)
    graph = _ffi_api.gpu_capture_plan(kernels, plan, [a], [b], [c], 3, stream)
    us = np.from_dlpack(_ffi_api.gpu_time([graph, graph], [5, 1], 2, stream))
    assert us.tolist() == [50.0, 250.0, 50.0, 250.0]


@pytest.mark.parametrize("in_graphs", [False, True], ids=["one by one", "in graphs"])
def test_plans_are_timed_by_the_call(kernels, fake_driver, rng, in_graphs):
    stream = _ffi_api.gpu_create_stream(0)
    a, b, c, _ = operands(rng, 64, 64, 64)
    tensors = tuple(tvm_ffi.from_dlpack(OnGpu(x)) for x in (a, b, c))
    plans = _ffi_api.gpu_enumerate_plans(kernels, 64, 64, 64)[:3]
    fake_driver.fake_log()
    us = _ffi_api.gpu_time_plans(kernels, plans, tensors, 5, 2, stream, in_graphs=in_graphs)
    # A sample is of 250 µs, and of five calls.
    assert np.from_dlpack(us).tolist() == [50.0] * 6
    launches = len(fake_driver.fake_log().splitlines())
    # An untimed call each, and five each that are timed: those of graphs once, others in rounds.
    assert launches == (3 * (1 + 5) if in_graphs else 2 * 3 * (1 + 5))


def test_code_is_not_loaded_while_a_graph_is_captured(fake_driver, rng):
    fresh = _ffi_api.GpuKernelSet(*fake_gpu.artifact(*KERNELS))
    stream = _ffi_api.gpu_create_stream(0)
    _ffi_api.gpu_begin_capture(0, stream)
    try:
        with pytest.raises(RuntimeError, match="call once before the capture"):
            run(fresh, *operands(rng, 64, 64, 64)[:3])
    finally:
        _ffi_api.gpu_end_capture(0, stream)


def test_a_set_without_code_plans_but_does_not_run(fake_driver, rng):
    manifest, images = fake_gpu.artifact(*KERNELS)
    bare = _ffi_api.GpuKernelSet(manifest, {})
    assert json.loads(_ffi_api.gpu_plan(bare, 64, 64, 64))["regions"]
    with pytest.raises(RuntimeError, match="without code"):
        run(bare, *operands(rng, 64, 64, 64)[:3])
    del images[next(iter(images))]
    with pytest.raises(ValueError, match="the artifact lacks"):
        _ffi_api.GpuKernelSet(manifest, images)


def test_matmul_takes_tensors_and_names_what_does_not_fit(kernels, rng, monkeypatch):
    import moonpoly
    from moonpoly.error import InputError
    from moonpoly.planning import product

    monkeypatch.setattr(product, "_kernels", lambda *_types: kernels)
    a, b, c, _ = operands(rng, 40, 24, 32)
    out = OnGpu(c)
    moonpoly.matmul(OnGpu(a), OnGpu(b), out)
    close_to(c, a, b)
    with pytest.raises(InputError, match="expected A"):
        moonpoly.matmul(OnGpu(b), OnGpu(a), out)
