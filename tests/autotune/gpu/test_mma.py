"""Tile programs for GPUs before Hopper keep their limits and compile to what they are meant to."""

from __future__ import annotations

import struct
from dataclasses import replace

import pytest
from tvm import s_tir

from moonpoly.autotune.candidates import candidates, space_of
from moonpoly.autotune.gpu.compile import compile_programs
from moonpoly.autotune.gpu.program import (
    Program,
    program_of_schedule,
    program_of_trace,
    tile_module,
)
from moonpoly.autotune.search import trace_json
from moonpoly.error import TargetError
from moonpoly.schedules.mma import SM80, configs
from moonpoly.target import Target
from moonpoly.tir_templates.items import deepest_ring
from moonpoly.tir_templates.mma.config import MAX_BLOCK_BYTES, MmaConfig
from moonpoly.workload import Workload

from .sass import disassemble

TARGET = Target.parse("cuda-sm80")
TYPES = {
    "float16": ("float16", "HMMA.16816.F32 "),
    "bfloat16": ("bfloat16", "HMMA.16816.F32.BF16 "),
    "tf32": ("float32", "HMMA.1688.F32.TF32 "),
    "int8": ("int32", "IMMA.16832.S8.S8 "),
}
ALL = [config for tile in SM80.tiles for dtype in TYPES for config in configs(tile, dtype)]
# A large tile, several blocks on a multiprocessor, other outputs, and every type; the last ones
# load by themselves.
COMPILED = (
    MmaConfig(128, 128, 4),
    MmaConfig(128, 256, 3, warps_m=2, warps_n=4, out_dtype="float32"),
    MmaConfig(64, 64, 3, blocks=2, dtype="int8", out_dtype="int32"),
    MmaConfig(64, 64, 3, dtype="tf32", out_dtype="float32"),
    MmaConfig(64, 32, 4, warps_m=4, warps_n=1, dtype="bfloat16", out_dtype="bfloat16"),
    MmaConfig(64, 64, 2, warps_m=2, warps_n=4, loads="strided"),
    MmaConfig(32, 64, 2, warps_m=2, warps_n=4, loads="strided", dtype="int8", out_dtype="int32"),
)


@pytest.fixture(scope="module")
def compiled():
    programs = [Program(config.name("sm80"), config) for config in COMPILED]
    return compile_programs(programs, TARGET.tvm_target())


def test_every_program_of_the_space_keeps_the_limits():
    assert len(ALL) > 500
    assert len({config.name("sm80") for config in ALL}) == len(ALL)
    for config in ALL:
        assert not config.problems(), config
        assert config.shared_bytes <= MAX_BLOCK_BYTES
        assert config.blocks * (config.shared_bytes + 1024) <= 164 * 1024
        assert config.threads in (128, 256)
        assert config.warps_m * config.warp_rows == config.um
        assert config.warps_n * config.warp_columns == config.un


@pytest.mark.parametrize(
    ("config", "reason"),
    [
        (MmaConfig(72, 64, 3), "multiple of 16"),
        (MmaConfig(64, 48, 3, warps_n=4), "multiple of 16 for each warp"),
        (MmaConfig(128, 256, 3), "256 accumulators"),
        (MmaConfig(128, 128, 6), "shared memory"),
        (MmaConfig(128, 128, 2, blocks=3), "3 blocks don't fit"),
        (MmaConfig(64, 64, 3, dtype="float8_e4m3fn"), "no instruction multiplies"),
        (MmaConfig(64, 64, 3, dtype="int8"), "int8 is not float16"),
        (MmaConfig(64, 64, 3, loads="strided"), "one step ahead"),
    ],
)
def test_what_can_t_be_built_says_why(config, reason):
    assert any(reason in problem for problem in config.problems())


def test_the_deepest_ring_fills_shared_memory():
    assert deepest_ring(MmaConfig(128, 128, 2), 9) == 5
    assert deepest_ring(replace(MmaConfig(128, 128, 2), blocks=2), 9) == 2


@pytest.mark.parametrize(("family", "um", "un"), [("async", 128, 64), ("gathered", 64, 64)])
@pytest.mark.parametrize("dtype", list(TYPES))
def test_a_trace_gives_back_its_program(family, um, un, dtype):
    candidate = next(
        c
        for c in candidates(TARGET, Workload("gemm", dtype))
        if (c.tile.family, c.tile.um, c.tile.un) == (family, um, un)
    )
    schedule = s_tir.Schedule(tile_module(candidate))
    space_of(TARGET).schedules[family](schedule)
    program = program_of_schedule(candidate, "sm80", schedule)
    assert program_of_trace(candidate, "sm80", trace_json(schedule.trace)) == program
    assert program.config in configs(candidate.tile, dtype)


def test_types_without_an_instruction_have_no_candidates():
    with pytest.raises(TargetError, match="no kernels for float8_e4m3fn"):
        candidates(TARGET, Workload("gemm", "float8_e4m3fn"))


def test_nothing_spills_and_blocks_fit_the_register_file(compiled):
    kernels, image = compiled
    assert image[:4] == b"\x7fELF"
    assert struct.unpack_from("<H", image, 18)[0] == 190  # EM_CUDA
    for kernel in kernels:
        config = kernel.program.config
        assert kernel.spilled_bytes == 0, kernel
        warps = config.threads // 32
        assert config.blocks * warps * -(-kernel.registers * 32 // 256) * 256 <= 65536


def test_machine_code_multiplies_what_is_copied_past_the_registers(compiled, tmp_path):
    kernels, image = compiled
    functions = disassemble(image, tmp_path)
    for kernel in kernels:
        config, code = kernel.program.config, functions[kernel.symbol]
        # One instruction for each 16 x 8 block and 32 bytes of k, none of another type.
        blocks = config.warp_rows // 16 * config.warp_columns // 8
        assert code.count(TYPES[config.dtype][1]) == 4 * blocks, kernel.symbol
        assert "LDSM.16.M88.4" in code
        assert ("LDGSTS.E.BYPASS.128" in code) == (config.loads == "async")
        assert "LDL" not in code
        assert "STL" not in code


def test_kernels_take_the_same_arguments_as_those_that_load_by_themselves(compiled):
    kernels, _ = compiled
    items = {"a", "a_m", "a_skip", "b", "b_n", "b_skip", "c", "ldc", "vector_c", "m", "n", "k"}
    for kernel in kernels:
        steps = {"a_k", "b_k"} if kernel.program.config.loads == "strided" else set()
        assert set(kernel.parameters) == items | steps | {"grid"}
