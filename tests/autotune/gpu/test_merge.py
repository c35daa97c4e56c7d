"""Tiles that differ in their columns only are one program, compiled once."""

import json
from dataclasses import replace

import pytest

from moonpoly.autotune.gpu import compile as compiler
from moonpoly.autotune.gpu import export as gpu_export
from moonpoly.autotune.gpu.program import Program, merge_programs
from moonpoly.target import Target
from moonpoly.tir_templates.wgmma.config import WgmmaConfig
from moonpoly.tir_templates.wgmma.merge import alike, merge, merge_alike, ring_of
from moonpoly.tir_templates.wgmma.shared_memory import MAX_BLOCK_BYTES

TARGET = Target.parse("cuda-sm90a")
NARROW = WgmmaConfig(24, 128, 10, consumers=2, swapped=True)
WIDE = WgmmaConfig(72, 128, 8, consumers=2, swapped=True)
ROWS = WgmmaConfig(128, 48, 8, consumers=2)
ROWS_WIDE = WgmmaConfig(128, 112, 6, consumers=2)
# Both ends of what split tiles there are of 128 rows, and of 64.
SPLIT = WgmmaConfig(64, 128, 9, consumers=2, swapped=True, split=True)
SPLIT_WIDE = WgmmaConfig(224, 128, 5, consumers=2, swapped=True, split=True)
SPLIT_THIN = WgmmaConfig(16, 64, 12, swapped=True, split=True)
SPLIT_LARGER = WgmmaConfig(96, 64, 11, swapped=True, split=True)


@pytest.mark.parametrize(
    "other",
    [
        replace(WIDE, cluster_p=2),
        WgmmaConfig(72, 64, 12, swapped=True),
        WgmmaConfig(128, 72, 8, consumers=2),
        replace(WIDE, split=True),
        replace(WIDE, dtype="bfloat16", out_dtype="bfloat16"),
        # Of so many columns the producer gives registers away.
        WgmmaConfig(208, 128, 4, consumers=2, swapped=True),
    ],
    ids=lambda config: config.name("sm90a"),
)
def test_tiles_that_differ_in_more_than_columns_are_programs_of_their_own(other):
    assert alike(other) != alike(WIDE)
    assert merge_alike([WIDE, other]) == {WIDE: (WIDE,), other: (other,)}


@pytest.mark.parametrize(
    ("tile", "other"),
    [
        (SPLIT, SPLIT_THIN),
        (SPLIT, replace(SPLIT_WIDE, blocks=2)),
        (SPLIT, replace(SPLIT_WIDE, dtype="tf32", out_dtype="float32")),
        # What lies alike in shared memory for any number of columns is rows of C.
        (WgmmaConfig(64, 16, 12, split=True), WgmmaConfig(64, 48, 12, split=True)),
        (replace(SPLIT, loads="residue"), replace(SPLIT_WIDE, loads="residue")),
    ],
    ids=lambda config: config.name("sm90a"),
)
def test_split_tiles_share_programs_only_where_their_sums_lie_alike(tile, other):
    assert merge_alike([tile, other]) == {tile: (tile,), other: (other,)}


def test_a_program_has_the_columns_of_all_its_tiles():
    program = merge([NARROW, WIDE])
    assert (program.um, program.un, program.widths) == (72, 128, (24, 72))
    assert program.name("sm90a") not in (NARROW.name("sm90a"), WIDE.name("sm90a"))
    assert merge([WIDE, WIDE]) == WIDE


@pytest.mark.parametrize("tile", [NARROW, WIDE], ids=lambda config: config.name("sm90a"))
def test_a_tile_s_ring_is_behind_what_its_program_keeps(tile):
    program = merge([NARROW, WIDE])
    ring = ring_of(program, tile)
    assert ring.base_bytes == program.arrival_offset
    assert ring.slot_bytes == tile.slot_bytes
    assert 3 <= ring.slots <= tile.stages
    assert ring.shared_bytes <= MAX_BLOCK_BYTES
    # By itself a tile has what it would have had.
    assert ring_of(tile, tile).shared_bytes == tile.shared_bytes


@pytest.mark.parametrize("tile", [SPLIT, SPLIT_WIDE], ids=lambda config: config.name("sm90a"))
def test_a_split_tile_needs_memory_for_its_own_partial_sums(tile):
    program = merge([SPLIT, SPLIT_WIDE])
    ring = ring_of(program, tile)
    assert ring.least_bytes == program.ring_offset + tile.sum_bytes <= ring.shared_bytes
    assert program.sum_bytes == SPLIT_WIDE.sum_bytes


def test_programs_are_compiled_once_and_serve_their_tiles():
    tiles = [Program(c.name("sm90a"), c) for c in (WIDE, ROWS, NARROW, ROWS_WIDE)]
    served = merge_programs(tiles, "sm90a")
    assert [[p.config for p in each] for each in served.values()] == [
        [WIDE, NARROW],
        [ROWS, ROWS_WIDE],
    ]
    kernels, image = compiler.compile_programs(list(served), TARGET.tvm_target())
    for kernel in kernels:
        assert kernel.spilled_bytes == 0
        assert {"columns", "q_groups"} <= set(kernel.parameters)
        assert kernel.symbol.encode() in image
    costs = {program.name: {"us": [1.0]} for program in tiles}
    entries = [
        gpu_export.describe(p, costs, program) for program in served for p in served[program]
    ]
    assert [(e["um"], e["un"], e["box_y"]) for e in entries] == [
        (72, 128, 72),
        (24, 128, 24),
        (128, 48, 48),
        (128, 112, 112),
    ]
    json.dumps(entries)


@pytest.mark.parametrize(
    "tiles",
    [
        [replace(SPLIT_WIDE, um=um, stages=5) for um in (64, 80, 112, 144, 160, 192, 208, 224)],
        [replace(SPLIT_LARGER, um=um) for um in range(16, 97, 16)],
        [replace(SPLIT_WIDE, um=um, dtype="int8", out_dtype="int32") for um in (80, 144, 224)],
    ],
    ids=lambda tiles: merge(tiles).name("sm90a"),
)
def test_split_programs_keep_their_sums_in_registers(tiles):
    program = merge(tiles)
    target = TARGET.tvm_target()
    lowered = compiler.lower([Program(program.name("sm90a"), program)], target)
    (function,) = lowered.functions.values()
    assert {"columns", "q_groups", "cluster", "slices"} <= {x.name for x in function.params}
    _, report = compiler._nvcc(compiler.cuda_source(lowered, target), "sm_90a")
    ((_, spilled_bytes),) = compiler.resources(report).values()
    assert spilled_bytes == 0
    # So the assembler says that the tensor cores wait for each instruction.
    assert "serialized" not in report


def test_split_tiles_stage_the_columns_that_they_have():
    program = merge([SPLIT_THIN, SPLIT_LARGER])
    target = TARGET.tvm_target()
    lowered = compiler.lower([Program(program.name("sm90a"), program)], target)
    source = compiler.cuda_source(lowered, target)
    # Around the main loops, and around the sums behind the narrow tile's.
    assert source.count("if (columns < 96)") == 1
    assert source.count("if (16 < columns)") == 1


def test_each_width_has_a_main_loop_of_its_own():
    program = merge([NARROW, WIDE])
    target = TARGET.tvm_target()
    lowered = compiler.lower([Program(program.name("sm90a"), program)], target)
    source = compiler.cuda_source(lowered, target)
    for columns in (24, 72):
        assert f"wgmma.mma_async.sync.aligned.m64n{columns}k16.f32.f16.f16" in source
