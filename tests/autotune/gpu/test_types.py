"""Tile programs of every type of operand and result, compiled on a machine without a GPU."""

from __future__ import annotations

from dataclasses import replace

import pytest

from moonpoly.autotune.candidates import candidates
from moonpoly.autotune.gpu.compile import compile_programs
from moonpoly.autotune.gpu.program import Program, program_of_trace, recorded_names
from moonpoly.autotune.search import trace_json
from moonpoly.schedules.cuda import SM90A, configs
from moonpoly.tir_templates.items import ITEMS
from moonpoly.tir_templates.wgmma.config import WgmmaConfig
from moonpoly.tir_templates.wgmma.shared_memory import MAX_BLOCK_BYTES
from moonpoly.workload import Workload

from .conftest import PAIRS, TARGET, types_of
from .sass import disassemble

# What the tensor cores' instruction is called in machine code.
MNEMONICS = {
    "float16": "HGMMA.64x16x16.F32",
    "bfloat16": "HGMMA.64x16x16.F32.BF16",
    "tf32": "HGMMA.64x16x8.F32.TF32",
    "float8_e4m3fn": "QGMMA.64x16x32.F32.E4M3.E4M3",
    "int8": "IGMMA.64x16x32.S8.S8",
}


@pytest.mark.parametrize("dtype", list(ITEMS))
def test_programs_of_every_type_keep_the_limits(dtype):
    found = [config for tile in SM90A.tiles for config in configs(tile, dtype)]
    assert len(found) > 300
    assert len({config.name("sm90a") for config in found}) == len(found)
    assert all(not config.problems() for config in found)
    for config in (each for each in found if isinstance(each, WgmmaConfig)):
        assert config.shared_bytes <= MAX_BLOCK_BYTES
        assert config.step * config.item.bytes == 128
        assert config.columns % config.item.instruction_columns(config.columns) == 0


@pytest.mark.parametrize(
    ("columns", "one"), [(8, 8), (24, 24), (40, 0), (48, 48), (72, 0), (240, 0), (256, 128)]
)
def test_integers_have_fewer_widths_of_instructions(columns, one):
    assert ITEMS["int8"].instruction_columns(columns) == one
    assert ITEMS["float16"].instruction_columns(columns) == columns


def test_what_a_type_can_t_become_is_refused():
    config = WgmmaConfig(64, 64, 4, dtype="int8", out_dtype="float32")
    assert any("int8 is not float32" in problem for problem in config.problems())


def test_every_pair_of_types_compiles_without_spills(typed):
    assert {types_of(kernel) for kernel in typed.kernels} | {("float16", "float16")} == set(PAIRS)
    for kernel in typed.kernels:
        assert kernel.spilled_bytes == 0, kernel
        assert kernel.symbol.encode() in typed.image


def test_machine_code_has_the_instruction_of_the_type(typed, tmp_path):
    functions = disassemble(typed.image, tmp_path)
    for kernel in typed.kernels:
        config, code = kernel.program.config, functions[kernel.symbol]
        if config.columns == 16:
            assert MNEMONICS[config.dtype] in code, kernel.symbol
        assert "LDL" not in code
        assert "STL" not in code


def test_a_trace_of_one_type_is_a_program_of_another(drawn):
    _, program, trace = drawn("whole", 64, 128)
    for dtype, out in PAIRS:
        candidate = next(
            c
            for c in candidates(TARGET, Workload("gemm", dtype, out))
            if (c.tile.family, c.tile.um, c.tile.un) == ("whole", 64, 128)
        )
        other = program_of_trace(candidate, "sm90a", trace_json(trace))
        assert other.config == replace(program.config, dtype=dtype, out_dtype=out)
        assert (program.name in recorded_names(other, "sm90a")) == (ITEMS[dtype].bytes == 2)


@pytest.mark.slow
@pytest.mark.parametrize(("dtype", "out"), PAIRS, ids=map(":".join, PAIRS))
def test_every_kind_compiles_for_every_pair_of_types(programs, dtype, out):
    kinds = [replace(p.config, dtype=dtype, out_dtype=out) for p in programs.values()]
    kinds.append(WgmmaConfig(128, 256, 3, consumers=2, dtype=dtype, out_dtype=out))
    buildable = [Program(c.name("sm90a"), c) for c in kinds if not c.problems()]
    missing = {c.loads for c in kinds if c.problems()}
    # The two kinds of vectors are of 16 bits or more.
    assert missing == ({"gemv"} if ITEMS[dtype].bytes == 1 else set())
    kernels, _ = compile_programs(buildable, TARGET.tvm_target())
    assert all(kernel.spilled_bytes == 0 for kernel in kernels)
