"""Compile programs as they are exported: one function for all that it serves."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from moonpoly.autotune.candidates import space_of
from moonpoly.autotune.gpu.compile import Kernel, compiler_path
from moonpoly.autotune.gpu.program import Program, merge_programs
from moonpoly.autotune.gpu.search import compile_pool, compiled
from moonpoly.autotune.gpu.workspace import GpuWorkspace
from moonpoly.autotune.progress import progress
from moonpoly.target import Target

_GROUP = "merged"


@dataclass(frozen=True)
class Merged:
    """Compiled programs.

    Parameters
    ----------
    programs
        Those that can run, in the order given.
    served
        By the program that was compiled, those of them that it serves.
    images
        Each compiled program and its machine code.
    """

    programs: tuple[Program, ...]
    served: dict[Program, tuple[Program, ...]]
    images: tuple[tuple[Kernel, bytes], ...]


def build_merged(target: Target, programs: Sequence[Program], work: GpuWorkspace) -> Merged:
    """Compile programs, leaving out those whose registers don't hold what they need.

    Of several that one function serves, the widest go until the others fit. What the working folder
    holds is not compiled again.

    Raises
    ------
    TargetError
        If there is no compiler.
    """
    compiler_path()
    pool, isa = compile_pool(), space_of(target).facts.isa
    left = list(programs)
    while True:
        served = merge_programs(left, isa)
        missing = [program for program in served if work.image(_GROUP, program) is None]
        futures = [pool.submit(compiled, program, target) for program in missing]
        with progress() as bar:
            for future in bar.track(futures, description=f"compiling for {target.name}"):
                work.save_image(_GROUP, *future.result())
        images = [found for p in served if (found := work.image(_GROUP, p)) is not None]
        spilling = [kernel.program for kernel, _ in images if kernel.spilled_bytes]
        if not spilling:
            return Merged(tuple(left), served, tuple(images))
        for program in spilling:
            widest = max(map(_width, served[program]))
            left = [p for p in left if p not in served[program] or _width(p) < widest]


def _width(program: Program) -> int:
    """Return how much of a register file a program of its kind takes, to compare."""
    return program.config.um * program.config.un
