"""What is tuned follows from a target's registers."""

from __future__ import annotations

from dataclasses import replace

import pytest

from moonpoly.autotune.candidates import candidates
from moonpoly.error import TargetError
from moonpoly.schedules import search_space
from moonpoly.target import Target, target_names
from moonpoly.workload import Workload


@pytest.mark.parametrize("name", target_names("llvm"))
def test_every_tile_fits_in_the_registers(name):
    facts = search_space(name).facts
    for tile in search_space(name).tiles:
        if tile.family == "outer":
            panels = tile.un // facts.lanes
            assert tile.un == panels * facts.lanes
            assert tile.um * panels + panels < facts.registers
        else:
            assert tile.um * tile.un + min(tile.um, tile.un) < facts.registers


@pytest.mark.parametrize("name", target_names("llvm"))
def test_the_lanes_are_the_targets(name):
    assert search_space(name).facts.lanes == Target.parse(name).vector_lanes["float32"]


def test_a_name_is_a_contract():
    names = {c.name for c in candidates(Target.parse("x86-avx512"), Workload())}
    assert {"gemm_f32_avx512_14x32", "gemm_dot_f32_avx512_4x4"} <= names
    assert len(names) == len(search_space("x86-avx512").tiles)


def test_a_target_without_a_space_is_refused():
    target = replace(Target.parse("x86-avx2"), name="x86-sse")
    with pytest.raises(TargetError, match="x86-sse has no search space"):
        candidates(target, Workload())
