"""Tile programs of a target, found by what they are, and compiled once a session."""

from __future__ import annotations

from dataclasses import dataclass

import pytest
from tvm import s_tir

from moonpoly.autotune.candidates import candidates, space_of
from moonpoly.autotune.gpu.compile import Kernel, compile_programs
from moonpoly.autotune.gpu.program import Program, program_of_schedule, tile_module
from moonpoly.schedules.cuda import configs
from moonpoly.target import Target
from moonpoly.tir_templates.wgmma.config import WgmmaConfig
from moonpoly.workload import OUTPUTS, Workload

# Every type of operand, and every type that its products can have.
PAIRS = [(item, out) for item, outs in OUTPUTS.items() if item != "float32" for out in outs]
TARGET = Target.parse("cuda-sm90a")

# One of every way in which a tile program differs from the others.
KINDS = {
    "cooperative": ("whole", 128, 128, {"consumers": 2, "pingpong": False, "cluster_p": 1}),
    "pingpong": ("whole", 64, 128, {"pingpong": True, "swapped": False, "cluster_p": 1}),
    "multicast": ("whole", 128, 128, {"cluster_p": 2, "pingpong": False}),
    "swapped": ("whole", 16, 64, {"blocks": 2}),
    "split": ("split", 64, 32, {"blocks": 1, "swapped": False}),
    "split-swapped": ("split", 32, 64, {"blocks": 1, "swapped": True}),
    "residue": ("residue", 64, 32, {"blocks": 2, "swapped": False}),
    "residue-swapped": ("residue", 16, 64, {"blocks": 1, "swapped": True}),
    "direct": ("direct", 32, 16, {"warps_k": 4, "stages": 2, "swapped": False}),
    "direct-swapped": ("direct", 8, 32, {"warps_k": 8, "stages": 1}),
    "row": ("gemv", 1, 16, {"stages": 2, "blocks": 4}),
    "column": ("gemv", 4, 1, {"stages": 4, "blocks": 4}),
    "strided": ("strided", 64, 16, {"split": True, "blocks": 1}),
}


def find_program(family, um, un, wanted):
    """Return the first program of a tile whose configuration has the wanted values."""
    tile = next(
        c.tile
        for c in candidates(TARGET, Workload("gemm", "float16"))
        if (c.tile.family, c.tile.um, c.tile.un) == (family, um, un)
    )
    config = next(
        c for c in configs(tile) if all(getattr(c, key) == value for key, value in wanted.items())
    )
    return Program(config.name("sm90a"), config)


@pytest.fixture(scope="session")
def programs():
    """Return one program of each kind."""
    return {kind: find_program(*what) for kind, what in KINDS.items()}


@pytest.fixture(scope="session")
def compiled(programs):
    """Return the compiled kernels by kind, and the image that holds them all."""
    kernels, image = compile_programs(list(programs.values()), TARGET.tvm_target())
    return dict(zip(programs, kernels, strict=True)), image


@dataclass(frozen=True)
class Compiled:
    """Kernels, the image that holds them and its disassembly by symbol."""

    kernels: list[Kernel]
    image: bytes


def types_of(kernel):
    """Return what A and B and what C of a kernel are."""
    return kernel.program.config.dtype, kernel.program.config.out_dtype


@pytest.fixture(scope="session")
def typed():
    """Return for each pair of types a small kernel that loads by itself and cuts reductions.

    Stores of whole reductions are in the kinds above for float16, and here for what stores 32 bits.
    """
    configs_ = [
        WgmmaConfig(64, 16, 4, loads="strided", split=True, dtype=item, out_dtype=out)
        for item, out in PAIRS
        if (item, out) != ("float16", "float16")
    ]
    configs_ += [
        WgmmaConfig(64, 24, 4, dtype="int8", out_dtype="int32"),
        WgmmaConfig(16, 64, 4, swapped=True, dtype="float16", out_dtype="float32"),
    ]
    programs = [Program(config.name("sm90a"), config) for config in configs_]
    return Compiled(*compile_programs(programs, TARGET.tvm_target()))


@pytest.fixture
def drawn():
    """Return a function that draws a schedule of a tile: the candidate, the program, the trace."""

    def draw(family, um, un):
        candidate = next(
            c
            for c in candidates(TARGET, Workload("gemm", "float16"))
            if (c.tile.family, c.tile.um, c.tile.un) == (family, um, un)
        )
        schedule = s_tir.Schedule(tile_module(candidate))
        space_of(TARGET).schedules[family](schedule)
        return candidate, program_of_schedule(candidate, "sm90a", schedule), schedule.trace

    return draw
