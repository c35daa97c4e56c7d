"""Micro-kernels of other types come from those of float16, and bfloat16 shares them."""

from __future__ import annotations

import json
from concurrent.futures import Future

import pytest

from moonpoly import _ffi_api, planning
from moonpoly.autotune.costs import load_costs
from moonpoly.autotune.export import candidates_of
from moonpoly.autotune.gpu import derive as deriving
from moonpoly.autotune.gpu import merged
from moonpoly.autotune.gpu.compile import Kernel
from moonpoly.autotune.gpu.derive import derive, spilled
from moonpoly.autotune.gpu.export import costs_of, program_of
from moonpoly.autotune.gpu.outline import planning_manifest
from moonpoly.autotune.gpu.program import Program
from moonpoly.autotune.records import load_records
from moonpoly.autotune.sources import Sources, current_sources, installed_sources
from moonpoly.error import TuneError
from moonpoly.target import Target
from moonpoly.tir_templates.direct.config import DirectConfig
from moonpoly.tir_templates.wgmma.config import WgmmaConfig
from moonpoly.workload import Workload

from .conftest import TARGET

FLOAT16 = Workload("gemm", "float16")


@pytest.mark.parametrize(("dtype", "factor"), [("int8", 2), ("float8_e4m3fn", 2), ("tf32", 0.5)])
def test_kernels_of_another_type_cost_what_as_many_bytes_do(tmp_path, monkeypatch, dtype, factor):
    workload = Workload("gemm", dtype)
    # All of them would take minutes to compile; one is pretended to spill.
    compiled = []
    monkeypatch.setattr(
        deriving, "spilled", lambda _, programs: compiled.extend(programs) or {programs[0].name}
    )
    output = Sources(tmp_path / "new" / "records.jsonl", tmp_path / "new" / "costs.json")
    derive(TARGET, workload, FLOAT16, output)
    records = load_records(output.records)
    costs = load_costs(output.costs, output.records)
    theirs = installed_sources(TARGET, FLOAT16)
    old = load_costs(theirs.costs, theirs.records)
    assert len(load_records(theirs.records)) > len(records) == len(compiled) - 1 >= 30
    assert compiled[0].name not in {record.kernel for record in records}
    assert "direct" in {record.family for record in records}
    assert costs["grid"]["k"] == [k * factor for k in old["grid"]["k"]]
    programs = [
        program_of(TARGET, candidate, record)
        for candidate, record in zip(candidates_of(records, TARGET, workload), records, strict=True)
    ]
    assert [program.name for program in programs] == [record.kernel for record in records]
    assert set(costs_of(TARGET, programs, costs)) == {record.kernel for record in records}
    assert not any(record.gflops for record in records)


def test_what_spills_is_found_by_compiling():
    # Eight blocks of 128 threads leave each 64 registers, which sums alone fill in the larger tile.
    small, large = (
        DirectConfig(128, un, 1, warps_p=4, blocks=8, dtype="int8", out_dtype="int32")
        for un in (8, 64)
    )
    programs = [Program(config.name("sm90a"), config) for config in (small, large)]
    assert spilled(TARGET, programs) == {large.name("sm90a")}


def test_the_widest_tile_of_a_function_that_spills_is_left_out(monkeypatch):
    configs = [WgmmaConfig(64, un, 4) for un in (32, 64, 96)]
    programs = [Program(config.name("sm90a"), config) for config in configs]
    tried = []

    class Pool:
        def submit(self, _, program, target):
            tried.append(program)
            spills = any(width > 64 for width in program.config.widths or (program.config.un,))
            future = Future()
            future.set_result((Kernel(program, "", (), 0, 8 * spills), b""))
            return future

    monkeypatch.setattr(merged, "compile_pool", Pool)
    assert spilled(TARGET, programs) == {configs[2].name("sm90a")}
    # The function of all three, then that of two.
    assert [len(program.config.widths) for program in tried] == [3, 2]


def test_nothing_is_derived_for_a_processor():
    with pytest.raises(TuneError, match="not alike"):
        derive(Target.parse("x86-avx2"), Workload(), Workload(), Sources("", ""))


@pytest.mark.parametrize(
    "workload",
    [Workload("gemm", "bfloat16"), Workload("gemm", "bfloat16", "float32")],
    ids=lambda w: w.key,
)
def test_types_that_run_alike_share_records_and_costs(workload, tmp_path, monkeypatch):
    monkeypatch.setenv("MOONPOLY_CACHE_DIR", str(tmp_path))
    assert current_sources(TARGET, workload) == installed_sources(TARGET, FLOAT16)
    own, shared = (planning_manifest(TARGET, w) for w in (workload, FLOAT16))
    assert (own["dtype"], own["out_dtype"]) == (workload.dtype, workload.out_dtype)
    assert len(own["kernels"]) == len(shared["kernels"])
    for ours, theirs in zip(own["kernels"], shared["kernels"], strict=True):
        assert ours["cost"] == theirs["cost"]
        assert ours["name"].startswith(("gemm_bf16_", "gemv_bf16_"))
    text = _ffi_api.gpu_plan(_ffi_api.GpuKernelSet(json.dumps(own), {}), 500, 768, 3072)
    assert json.loads(text)["regions"][0]["kernel"].startswith("gemm_bf16_")


def test_a_plan_is_made_for_the_type_that_is_asked_for():
    plan = planning.plan(333, 3072, 768, target="cuda-sm90a", dtype="bfloat16")
    assert all(region.kernel.startswith("gemm_bf16_sm90a") for region in plan.regions)


def test_plans_without_code_share_long_reductions_as_those_with_it_do():
    kernels = _ffi_api.GpuKernelSet(json.dumps(planning_manifest(TARGET, FLOAT16)), {})
    plans = [json.loads(t) for t in _ffi_api.gpu_enumerate_plans(kernels, 16, 32, 80_000)]
    assert max(plan["regions"][0]["slices"] for plan in plans) > 1
