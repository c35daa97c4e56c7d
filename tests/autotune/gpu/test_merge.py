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


def test_each_width_has_a_main_loop_of_its_own():
    program = merge([NARROW, WIDE])
    target = TARGET.tvm_target()
    lowered = compiler.lower([Program(program.name("sm90a"), program)], target)
    source = compiler.cuda_source(lowered, target)
    for columns in (24, 72):
        assert f"wgmma.mma_async.sync.aligned.m64n{columns}k16.f32.f16.f16" in source
