"""Prefetch annotations become one instruction for each cache line of a step, and nothing else."""

from __future__ import annotations

import pytest
from tvm import s_tir

from moonpoly.autotune.candidates import candidates
from moonpoly.autotune.generate import kernel_module
from moonpoly.autotune.prefetch import insert_prefetch
from moonpoly.schedules.space import PREFETCH_DISTANCE, PREFETCH_LEVEL, PREFETCH_OPERAND
from moonpoly.target import Target
from moonpoly.workload import Workload

CANDIDATES = {c.name: c for c in candidates(Target.parse("x86-avx512"), Workload())}


def _annotated(name, operand, distance, unroll=1, next_rows=False):
    sch = s_tir.Schedule(kernel_module(CANDIDATES[name]))
    step, *_ = sch.get_loops(sch.get_sblock("multiply"))
    outer, inner = sch.split(step, [None, unroll])
    sch.unroll(inner)
    sch.annotate(outer, PREFETCH_OPERAND, operand)
    sch.annotate(outer, PREFETCH_DISTANCE, distance)
    sch.annotate(outer, PREFETCH_LEVEL, 3)
    return insert_prefetch(sch.mod["main"], next_rows=next_rows)


def _prefetches(func):
    return [line.strip() for line in func.script().splitlines() if "prefetch" in line]


def test_each_panel_of_a_step_is_fetched_once():
    lines = _prefetches(_annotated("gemm_f32_avx512_2x48", operand=1, distance=8))
    # The lanes were not vectorized, so each of the 3 panels shows its 16 elements.
    assert len(lines) == 3 * 16
    assert all("T.address_of(B[" in line for line in lines)


def test_the_distance_is_in_steps_of_the_reduction():
    (line,) = {
        line
        for line in _prefetches(_annotated("gemm_f32_avx512_1x16", 1, distance=12, unroll=4))
        if line.endswith("T.int64(0)]), 0, 3, 1)") and "+ T.int64(12)" in line
    }
    assert "T.int64(4)" in line


def test_no_distance_leaves_no_instruction_and_no_annotation():
    script = _annotated("gemm_f32_avx512_2x48", operand=1, distance=0).script()
    assert "prefetch" not in script


@pytest.mark.parametrize(
    ("name", "unroll", "lines"), [("7x48", 1, 1), ("7x48", 4, 2), ("9x32", 2, 2)]
)
def test_a_step_fetches_its_part_of_the_next_tile_of_a(name, unroll, lines):
    func = _annotated(f"gemm_f32_avx512_{name}", 1, distance=0, unroll=unroll, next_rows=True)
    found = _prefetches(func)
    assert len(found) == lines
    rows = name.partition("x")[0]
    for line in found:
        # The row after the tile's last one; along it as far as the steps before this one reached.
        assert f"* T.int64({rows}) + T.int64({rows}), " in line
        assert f"T.int64({unroll * int(rows)})" in line
        assert "T.address_of(A[" in line


def test_another_operand_is_fetched_by_its_own_addresses():
    lines = _prefetches(_annotated("gemm_f32_avx512_3x16", operand=0, distance=4))
    assert len(lines) == 3
    assert all("T.address_of(A[" in line for line in lines)


@pytest.mark.parametrize("name", ["gemm_f32_avx512_4x32", "gemm_dot_f32_avx512_2x2"])
def test_a_function_without_annotations_is_unchanged(name):
    func = kernel_module(CANDIDATES[name])["main"]
    assert insert_prefetch(func).script() == func.script()
