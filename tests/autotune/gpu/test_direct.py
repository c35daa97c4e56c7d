"""Direct tile programs: which thread has what, limits, and what they compile to."""

from __future__ import annotations

from itertools import product

import pytest

from moonpoly.autotune.gpu.compile import compile_programs, cuda_source, lower
from moonpoly.autotune.gpu.program import Program, program_of_trace
from moonpoly.autotune.search import trace_json
from moonpoly.schedules import direct
from moonpoly.target import Target
from moonpoly.tir_templates.direct import place
from moonpoly.tir_templates.direct.config import DirectConfig

TARGET = Target.parse("cuda-sm90a").tvm_target()
ALL = [config for tile in direct.tiles() for config in direct.configs(tile)]
TYPED = (
    DirectConfig(32, 16, 2, warps_k=2, blocks=2, dtype="bfloat16", out_dtype="float32"),
    DirectConfig(16, 32, 1, swapped=True, blocks=2, dtype="int8", out_dtype="int32"),
    DirectConfig(32, 32, 1, warps_p=2, blocks=2, dtype="tf32", out_dtype="float32"),
    DirectConfig(16, 8, 1, warps_k=4, dtype="float8_e4m3fn", out_dtype="bfloat16"),
)


@pytest.mark.parametrize(
    "config",
    [
        DirectConfig(32, 16, 1),
        DirectConfig(16, 8, 1),
        DirectConfig(16, 24, 1),
        DirectConfig(64, 32, 1),
        DirectConfig(8, 16, 1, swapped=True),
        DirectConfig(16, 64, 1, swapped=True),
    ],
    ids=lambda config: config.name("sm90a"),
)
def test_runs_are_the_sums_of_their_items_and_cover_the_tile_once(config):
    seen = []
    for lane in range(32):
        # The instructions' own layout of their sums, in the rows and columns given to them.
        items = {}
        for line, column, odd in product(
            range(config.row_lines), range(config.column_lines), range(2)
        ):
            register = (line // 2 * config.column_lines + column) * 4 + line % 2 * 2 + odd
            p = int(place.row_of(config, line, lane))
            q = int(place.column_of(config, column, lane % 4 * 2 + odd))
            items[register] = (q, p) if config.swapped else (p, q)
        for run, i in product(range(config.runs), range(config.run)):
            row, left = (int(each) for each in place.item_of(config, run, lane))
            assert items[int(place.register_of(config, run, i))] == (row, left + i)
            seen.append((row, left + i))
    assert sorted(seen) == list(product(range(config.um), range(config.un)))


def test_every_program_of_the_space_keeps_the_limits():
    assert len(ALL) > 300
    assert len({config.name("sm90a") for config in ALL}) == len(ALL)
    for config in ALL:
        assert not config.problems(), config
        assert config.sum_bytes <= 48 * 1024
        assert config.blocks * config.threads <= 2048


@pytest.mark.parametrize(
    ("config", "reason"),
    [
        (DirectConfig(24, 8, 1), "multiple of 16"),
        (DirectConfig(16, 12, 1), "multiple of 8"),
        (DirectConfig(64, 64, 1, warps_k=8), "bytes of sums"),
        (DirectConfig(32, 32, 4, warps_k=8), "don't fit the registers"),
        (DirectConfig(16, 16, 1, dtype="float8_e4m3fn", out_dtype="int32"), "is not int32"),
    ],
)
def test_what_can_t_be_built_says_why(config, reason):
    assert any(reason in problem for problem in config.problems())


@pytest.mark.parametrize(("um", "un"), [(32, 16), (8, 32)])
def test_a_trace_gives_back_its_program(drawn, um, un):
    candidate, program, trace = drawn("direct", um, un)
    assert program_of_trace(candidate, "sm90a", trace_json(trace)) == program
    assert program.config in direct.configs(candidate.tile)


def test_every_type_compiles_to_its_instruction():
    programs = [Program(config.name("sm90a"), config) for config in TYPED]
    source = cuda_source(lower(programs, TARGET), TARGET)
    for instruction in (
        "m16n8k16_row_col_f32_bf16_bf16_f32",
        "m16n8k32_row_col_s32_s8_s8_s32",
        "m16n8k8_row_col_f32_tf32_tf32_f32",
        "m16n8k32_row_col_f32_e4m3_e4m3_f32",
    ):
        assert instruction in source
    kernels, _ = compile_programs(programs, TARGET)
    assert all(kernel.spilled_bytes == 0 for kernel in kernels)
