"""Targets are found by name or by this machine's features."""

from __future__ import annotations

import pytest

from moonpoly import Target, Workload, target
from moonpoly.error import TargetError, UnsupportedError
from moonpoly.workload import OUTPUTS


@pytest.fixture
def machine(monkeypatch):
    def pretend(*features):
        monkeypatch.setattr(target, "host_features", lambda: frozenset(features))

    return pretend


AVX512 = ("avx2", "fma", "avx512f", "avx512bw", "avx512vl", "avx512dq")


def test_the_host_gets_the_best_target_it_can_run(machine):
    machine(*AVX512)
    assert target.host_target().name == "x86-avx512"
    machine(*AVX512[:3])
    assert target.host_target().name == "x86-avx2"


def test_a_machine_without_vectors_is_refused_with_what_it_needs(machine):
    machine()
    with pytest.raises(TargetError, match="AVX2 and FMA is needed"):
        target.host_target()


def test_a_target_that_the_host_lacks_names_the_features(machine):
    machine("avx2", "fma")
    with pytest.raises(TargetError, match="x86-avx512 needs avx512f, avx512bw"):
        Target.parse("x86-avx512").require_host()


def test_an_unknown_target_lists_the_known():
    with pytest.raises(TargetError, match="unknown target 'arm'; known: x86-avx512"):
        Target.parse("arm")


@pytest.mark.parametrize("name", target.target_names())
def test_tvm_knows_every_target(name):
    wanted = Target.parse(name)
    made = wanted.with_num_pes(3).tvm_target()
    assert made.kind.name == wanted.kind
    if wanted.is_gpu:
        assert str(made.attrs["arch"]) == wanted.arch
    else:
        assert int(made.attrs["num-cores"]) == 3


def test_a_gpu_is_never_the_host_and_names_what_it_needs(monkeypatch):
    monkeypatch.setattr(target, "gpu_features", lambda: frozenset({"sm_80"}))
    assert not target.host_target().is_gpu
    with pytest.raises(TargetError, match="cuda-sm90a needs sm_90"):
        Target.parse("cuda-sm90a").require_host()
    monkeypatch.setattr(target, "gpu_features", lambda: frozenset({"sm_90"}))
    Target.parse("cuda-sm90a").require_host()


def test_an_older_gpu_has_the_types_that_its_tensor_cores_multiply():
    older, hopper = Target.parse("cuda-sm80"), Target.parse("cuda-sm90a")
    assert older.is_gpu
    assert set(hopper.vector_lanes) - set(older.vector_lanes) == {"float8_e4m3fn"}
    assert all(lanes == hopper.vector_lanes[dtype] for dtype, lanes in older.vector_lanes.items())


def test_targets_and_workloads_are_keys():
    assert len({Target.parse("x86-avx2"), Target.parse("x86-avx2")}) == 1
    for dtype, outputs in OUTPUTS.items():
        for out_dtype in outputs:
            workload = Workload("gemm", dtype, out_dtype)
            assert Workload.parse(workload.key) == workload
    assert Workload("gemm", "float32").key == "gemm_float32"
    assert Workload("gemm", "int8").out_dtype == "int32"
    assert Workload("gemm", "float16", "float32").key == "gemm_float16_to_float32"


def test_workloads_that_run_alike_come_nearest_first():
    wide = Workload("gemm", "bfloat16", "float32")
    assert [w.key for w in wide.likes] == ["gemm_bfloat16", "gemm_float16"]
    assert Workload("gemm", "bfloat16").likes == (Workload("gemm", "float16"),)
    assert Workload("gemm", "int8").likes == Workload("gemm", "float16").likes == ()


def test_an_unknown_workload_is_refused():
    with pytest.raises(UnsupportedError, match="known: gemm"):
        Workload(op="sort")
    with pytest.raises(UnsupportedError, match="known: float32"):
        Workload(dtype="float7")
    with pytest.raises(UnsupportedError, match="int8 is int32, not float32"):
        Workload("gemm", "int8", "float32")
