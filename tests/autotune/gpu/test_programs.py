"""Tile programs keep to the limits of the GPU, and compile for it on a machine without one."""

from __future__ import annotations

import struct

import pytest

from moonpoly.autotune.gpu import compile as compiler
from moonpoly.autotune.gpu.program import program_of_trace
from moonpoly.autotune.search import trace_json
from moonpoly.error import TargetError
from moonpoly.schedules.cuda import SM90A, configs
from moonpoly.tir_templates.items import deepest_ring
from moonpoly.tir_templates.wgmma.config import WgmmaConfig
from moonpoly.tir_templates.wgmma.shared_memory import MAX_BLOCK_BYTES

ALL = [config for tile in SM90A.tiles for config in configs(tile)]
# What kernels take that add up several slices.
SHARED = {"workspace", "counters", "cluster", "slices"}
ON_TENSOR_CORES = [config for config in ALL if isinstance(config, WgmmaConfig)]


def test_every_program_of_the_space_keeps_the_limits():
    assert len(ALL) > 500
    assert all(not config.problems() for config in ALL)
    for config in ON_TENSOR_CORES:
        assert config.shared_bytes <= MAX_BLOCK_BYTES
        assert config.blocks * (config.shared_bytes + 1024) <= 228 * 1024
        assert config.accumulators <= 208
        assert config.warpgroup_rows % 64 == 0
        assert config.threads <= 576


def test_tiles_step_by_eight_so_that_waves_can_be_exact():
    columns = {
        c.columns for c in ON_TENSOR_CORES if c.rows == 128 and c.loads == "tma" and not c.split
    }
    assert set(range(40, 201, 8)) <= columns


def test_no_two_programs_share_a_name():
    names = [config.name("sm90a") for config in ALL]
    assert len(set(names)) == len(names)


@pytest.mark.parametrize(
    ("config", "reason"),
    [
        (WgmmaConfig(96, 64, 4), "multiple of 64"),
        (WgmmaConfig(64, 60, 4), "multiple of 8"),
        (WgmmaConfig(128, 256, 6, consumers=2), "shared memory"),
        (WgmmaConfig(256, 256, 3, consumers=2), "accumulators"),
        (WgmmaConfig(64, 64, 4, pingpong=True), "two consumers"),
        (WgmmaConfig(64, 256, 2, split=True, cluster_p=2), "partial sums"),
    ],
)
def test_what_can_t_be_built_says_why(config, reason):
    assert any(reason in problem for problem in config.problems())


def test_the_deepest_ring_fills_shared_memory():
    config = WgmmaConfig(128, 256, 2, consumers=2)
    assert deepest_ring(config, 12) == 4
    assert deepest_ring(WgmmaConfig(64, 64, 2), 12) == 12


@pytest.mark.parametrize(
    ("family", "um", "un"),
    [("whole", 72, 128), ("split", 16, 64), ("residue", 64, 16), ("strided", 64, 64)],
)
def test_a_trace_gives_back_its_program(drawn, family, um, un):
    candidate, program, trace = drawn(family, um, un)
    assert program_of_trace(candidate, "sm90a", trace_json(trace)) == program
    assert program.config in configs(candidate.tile)


def test_an_image_is_machine_code_for_the_gpu_with_every_kernel(compiled):
    kernels, image = compiled
    machine = struct.unpack_from("<H", image, 18)[0]
    assert image[:4] == b"\x7fELF"
    assert machine == 190  # EM_CUDA
    for kernel in kernels.values():
        assert kernel.symbol.encode() in image


def test_nothing_spills_and_blocks_fit_the_register_file(compiled):
    kernels, _ = compiled
    for kernel in kernels.values():
        config = kernel.program.config
        assert kernel.spilled_bytes == 0
        # Registers are given to a warp in units of 256.
        warps = config.threads // 32
        assert config.blocks * warps * -(-kernel.registers * 32 // 256) * 256 <= 65536


def test_kernels_take_what_their_way_of_loading_needs(compiled):
    kernels, _ = compiled
    always = {"c", "ldc", "vector_c", "m", "n", "depth"}
    cut = SHARED | {"part_steps", "longer_parts"}
    rows = {"a_m", "a_skip", "b_n", "b_skip"}
    residues = {f"{x}_map{i or ''}" for x in "xy" for i in range(8)} | rows
    maps, items = {"x_map", "y_map"}, {"a", "a_m", "a_k", "a_skip", "b", "b_n", "b_k", "b_skip"}
    for kernel in kernels.values():
        config = kernel.program.config
        if config.loads in ("direct", "gemv"):
            continue
        loads = {"tma": maps, "residue": residues, "strided": items}[config.loads]
        expected = always | loads | (cut if config.split else set())
        # Parts have their steps told; what loads by itself needs to know where k ends.
        assert set(kernel.parameters) - {"grid", "k"} == expected


def test_a_direct_kernel_takes_rows_that_start_anywhere_and_no_maps(compiled):
    kernels, _ = compiled
    expected = {"a", "a_skip", "a_m", "b", "b_skip", "b_n", "c", "ldc", "vector_c", "m", "n", "k"}
    for kind in ("direct", "direct-swapped"):
        assert set(kernels[kind].parameters) - {"grid"} == expected | SHARED


def test_a_vector_s_kernel_takes_rows_that_start_anywhere(compiled):
    kernels, _ = compiled
    places = {"a", "a_skip", "b", "b_skip", "c", "k"}
    # A row of 16 items is shared in clusters only.
    assert set(kernels["row"].parameters) - {"grid"} == places | {"b_n", "n", "cluster"}
    assert set(kernels["column"].parameters) - {"grid"} == places | {"a_m", "m", "ldc"} | SHARED


def test_the_main_loop_is_tensor_cores_fed_by_the_copy_engine(programs):
    source = compiler.cuda_source(compiler.lower([programs["multicast"]], _target()), _target())
    assert "wgmma.mma_async.sync.aligned.m64n128k16.f32.f16.f16" in source
    assert "cp.async.bulk.tensor.2d.shared::cluster.global" in source
    assert "multicast::cluster" in source
    assert "griddepcontrol.wait" in source


def test_without_a_compiler_the_message_says_what_to_install(monkeypatch):
    monkeypatch.setattr(compiler.shutil, "which", lambda _name: None)
    monkeypatch.setattr(compiler, "_USUAL_PLACE", "/nowhere/nvcc")
    with pytest.raises(TargetError, match="install the CUDA toolkit"):
        compiler.compiler_path()


def test_the_assembler_s_report_is_read_by_kernel():
    report = """ptxas info    : Compiling entry function 'one_kernel' for 'sm_90a'
ptxas info    : Function properties for one_kernel
    8 bytes stack frame, 8 bytes spill stores, 24 bytes spill loads
ptxas info    : Used 80 registers, used 4 barriers
ptxas info    : Compiling entry function 'two_kernel' for 'sm_90a'
    0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads
ptxas info    : Used 168 registers, used 3 barriers"""
    assert compiler.resources(report) == {"one_kernel": (80, 32), "two_kernel": (168, 0)}


def _target():
    from moonpoly.target import Target

    return Target.parse("cuda-sm90a").tvm_target()
