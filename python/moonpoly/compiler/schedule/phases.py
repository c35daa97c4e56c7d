"""Run a program as one loop nest after another."""

from __future__ import annotations

from tvm.ir import Expr, Var

from moonpoly.compiler.schedule.emitter import Emitter
from moonpoly.compiler.schedule.rule_map import emit_map
from moonpoly.compiler.schedule.rule_reduce import emit_reduce
from moonpoly.compiler.schedule.rule_transpose import emit_transpose
from moonpoly.compiler.schedule.stages import Program, Stage
from moonpoly.error import UnsupportedError


def emit_phases(emitter: Emitter) -> None:
    """Emit every reduction and every output as a nest of its own; the rest is inlined."""
    for stage in emitter.program.stages:
        if is_root(emitter.program, stage):
            emit_stage(emitter, stage)


def is_root(program: Program, stage: Stage) -> bool:
    """Whether the stage's result has to be in memory."""
    return stage.is_reduction or stage.buffer not in program.intermediates


def emit_stage(emitter: Emitter, stage: Stage) -> None:
    """Emit one stage, into memory of its own if it isn't a parameter."""
    output = stage.buffer
    if output in emitter.program.intermediates:
        output = materialise(emitter, stage)
    if stage.is_reduction:
        emit_reduce(emitter, stage, output)
        return
    try:
        emit_transpose(emitter, stage, output)
    except UnsupportedError:
        emit_map(emitter, stage, output)


def materialise(emitter: Emitter, stage: Stage) -> Var:
    """Allocate memory for a stage's result; later stages read it there."""
    shape = list(stage.buffer.ty.shape)
    memory = emitter.allocate(shape, str(stage.buffer.ty.dtype), stage.buffer.name)
    emitter.resident[stage.buffer] = _Reader(memory)
    return memory


class _Reader:
    """Reads elements of a buffer through whichever emitter asks."""

    def __init__(self, memory: Var) -> None:
        self.memory = memory

    def __call__(self, emitter: Emitter, indices: list[Expr]) -> Expr:
        return emitter.load(self.memory, emitter.offset(self.memory, indices))
