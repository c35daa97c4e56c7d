"""The benchmarks of a GPU, as far as they go without one: classes, figures, what they draw."""

from __future__ import annotations

import json
from types import SimpleNamespace

import numpy as np
import pytest
from gpu_runtime import fake_gpu

from moonpoly import _ffi_api
from moonpoly.benchmarks.gpu import device, oracle, report, select, validity
from moonpoly.benchmarks.gpu.contest import Protocol, Result, describe, time_graphs
from moonpoly.benchmarks.gpu.types import Types
from moonpoly.benchmarks.peer import BenchmarkError
from moonpoly.benchmarks.shape_lists import Problem, load
from moonpoly.cli import bench
from moonpoly.error import TargetError

CEILING = report.Ceiling(tflops=780.0, gbs=4300.0)


def result(cublas, pdl, plain, lt=None, cold=None, shape=(64, 64, 64)):
    warm = {"cublas": cublas, "pdl": pdl, "plain": plain}
    if lt is not None:
        warm |= {"lt_first": lt[0], "lt_best": lt[1]}
    return Result(Problem("test", *shape), warm, cold or {}, "I x", 1.0)


def test_the_summary_has_the_named_figures():
    results = [
        result(4.0, 2.0, 4.0, (4.0, 3.0), {"cublas": 6.0, "pdl": 3.0, "plain": 3.0}),
        result(2.0, 4.0, 4.0, (2.0, 2.0)),
        result(9.0, 3.0, 4.5),
    ]
    summary = report.summarise(results)
    assert summary["geomean_pdl"] == pytest.approx((2.0 * 0.5 * 3.0) ** (1 / 3), abs=1e-4)
    assert summary["geomean_nopdl"] == pytest.approx((1.0 * 0.5 * 2.0) ** (1 / 3), abs=1e-4)
    assert summary["geomean_best_of_lt"] == pytest.approx((1.5 * 0.5) ** 0.5, abs=1e-4)
    assert summary["geomean_cold_pdl"] == 2.0
    assert summary["win_rate"] == pytest.approx(2 / 3, abs=1e-4)
    assert summary["worst"] == 0.5 <= summary["worst_1pct"] < 0.6
    assert (summary["shapes"], summary["shapes_cold"]) == (3, 1)


@pytest.mark.parametrize(
    ("shape", "name"),
    [
        ((1, 4096, 4096), "vector"),
        ((500, 500, 333), "misaligned"),
        ((500, 501, 336), "misaligned"),
        ((64, 64, 65536), "long-k"),
        ((64, 64, 64), "latency-bound"),
        ((20000, 32, 512), "thin"),
        ((4096, 4096, 4096), "compute-bound"),
        ((4096, 4096, 64), "memory-bound"),
    ],
)
def test_every_class_has_its_shapes(shape, name):
    assert report.kind(Problem("test", *shape), CEILING) == name


@pytest.mark.parametrize(
    ("types", "shape", "name"),
    [
        (Types("int8", "int32"), (500, 500, 328), "misaligned"),
        (Types("tf32", "float32"), (5000, 500, 4), "memory-bound"),
        (Types("tf32", "float32"), (500, 500, 2), "misaligned"),
    ],
)
def test_classes_depend_on_the_width_of_items(types, shape, name):
    assert report.kind(Problem("test", *shape), report.Ceiling(780.0, 4300.0, types)) == name


def test_bytes_are_those_of_the_types():
    ceiling = report.Ceiling(780.0, 4300.0, Types("int8", "int32"))
    assert ceiling.num_bytes(Problem("test", 2, 3, 5)) == 10 + 15 + 4 * 6


def test_shapes_that_torch_can_t_multiply_have_no_peer():
    problems = load()
    for dtype, out in (("float16", "float16"), ("tf32", "float32")):
        assert all(map(Types(dtype, out).has_peer, problems))
    int8 = [p for p in problems if Types("int8", "int32").has_peer(p)]
    fp8 = [p for p in problems if Types("float8_e4m3fn", "bfloat16").has_peer(p)]
    assert all(700 < len(some) < len(problems) for some in (int8, fp8))
    assert not any(p.k % 8 or p.n % 8 or p.m <= 16 for p in int8)


def test_every_shape_of_the_lists_has_a_class():
    assert {report.kind(p, CEILING) for p in load()} == set(report.CLASSES)


def test_shapes_that_were_held_out_are_no_powers_of_two_and_repeat_with_the_seed():
    shapes = oracle.held_out_shapes(200, 5)
    assert shapes == oracle.held_out_shapes(200, 5) != oracle.held_out_shapes(200, 6)
    assert len({(p.m, p.n, p.k) for p in shapes}) == 200
    assert all(x & (x - 1) for p in shapes for x in (p.m, p.n, p.k))


def test_every_graph_runs_as_often_as_fills_its_own_sample(monkeypatch):
    def gpu_time(graphs, replays, rounds, stream):
        assert (graphs, replays, rounds, stream) == ([1, 2, 3], [25, 2, 1], 3, 7)
        return np.tile([10.0, 100.0, 9000.0], (rounds, 1))

    monkeypatch.setattr(_ffi_api, "gpu_time", gpu_time)
    guesses = {"fast": 1.0, "slow": 12.5, "hopeless": 900.0}
    us = time_graphs(
        SimpleNamespace(stream=7),
        {"fast": 1, "slow": 2, "hopeless": 3},
        10,
        guesses,
        Protocol(sample_us=250.0, rounds=3),
    )
    assert us == {"fast": 1.0, "slow": 10.0, "hopeless": 900.0}


def test_the_sweep_draws_what_is_hard():
    cases = list(validity.cases(2_000, 0))
    assert len(cases) == 2_000
    assert {case.layout for case in cases} == {"nt", "nn", "tn", "tt"}
    assert {1, 63, 64, 65, 1009} <= {case.m for case in cases}
    assert max(case.k for case in cases) == 500_000
    assert any(case.offset for case in cases)
    assert any(case.gap % 8 for case in cases)


def test_selection_is_timed_without_a_gpu(tmp_path):
    manifest, _ = fake_gpu.artifact(
        fake_gpu.kernel(64, 64), fake_gpu.kernel(64, 64, loads="strided")
    )
    kernels = device.Kernels(_ffi_api.GpuKernelSet(manifest, {}), json.loads(manifest))
    path = tmp_path / "select.json"
    summary = select.main(target="cuda-sm90a", sample=20, json=path, kernels=kernels)
    assert summary["selections"] == len(json.loads(path.read_text())["samples"]) == 20


def test_plans_are_named_in_short():
    region = {"kernel": "gemm_f16_sm90a_64x32x64_s8", "cluster": 4, "slices": 2}
    plain = {"kernel": "gemm_f16_sm90a_128x64x64_s4", "cluster": 1, "slices": 1}
    text = json.dumps({"pattern": "II", "regions": [plain, region]})
    assert describe(text) == "II 128x64x64_s4 + 64x32x64_s8/4x2"


def test_launches_are_timed_on_a_gpu_only():
    with pytest.raises(TargetError, match="on a GPU such as cuda-sm90a, got 'host'"):
        bench.launch(target="host")


def test_a_machine_without_a_gpu_is_told_so(monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "torch", None)
    with pytest.raises(BenchmarkError, match="torch is not installed"):
        device._require_gpu()
