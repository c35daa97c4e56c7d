"""Schedule every PrimFunc of a module that has no schedule yet."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import tvm
from tvm import relax, tirx
from tvm.s_tir import SBlock, SBlockRealize
from tvm.tirx import PrimFunc

from moonpoly.compiler.schedule.emitter import Emitter
from moonpoly.compiler.schedule.phases import emit_phases
from moonpoly.compiler.schedule.rule_rows import emit_rows, match_rows
from moonpoly.compiler.schedule.rule_window import emit_window, match_window
from moonpoly.compiler.schedule.stages import Program, read_program
from moonpoly.error import UnsupportedError

SCHEDULED = "tirx.is_scheduled"


@dataclass
class ScheduleReport:
    """Which rule took which function."""

    rules: dict[str, str] = field(default_factory=dict)


def float32_lanes(target: tvm.target.Target) -> int:
    """Return how many float32 a vector register of ``target`` holds."""
    with target:
        has_avx512 = tvm.get_global_func("target.llvm_get_vector_width")(target) >= 512
    return 16 if has_avx512 else 8


def schedule_function(func: PrimFunc, lanes: int) -> tuple[PrimFunc, str]:
    """Return ``func`` with a schedule, and the name of the rule that made it."""
    program = read_program(func)
    emitter, rule = _emit(program, lanes)
    # Passes of Relax that run later expect a root block.
    root = SBlock([], [], [], "root", emitter.statement())
    scheduled = func.with_body(SBlockRealize([], tirx.const(True, "bool"), root))
    return scheduled.with_attr(SCHEDULED, True), rule


def _emit(program: Program, lanes: int) -> tuple[Emitter, str]:
    """Try the rules from the most special to the most general."""
    for name, emit in RULES:
        emitter = Emitter(program, lanes)
        try:
            emit(emitter)
        except UnsupportedError:
            continue
        return emitter, name
    raise UnsupportedError(f"expected a rule for {program.stages[-1].name}")


def _emit_window(emitter: Emitter) -> None:
    emit_window(emitter, match_window(emitter.program))


def _emit_rows(emitter: Emitter) -> None:
    emit_rows(emitter, match_rows(emitter.program))


RULES: tuple[tuple[str, Callable[[Emitter], None]], ...] = (
    ("window", _emit_window),
    ("rows", _emit_rows),
    ("phases", emit_phases),
)


def schedule_cpu(mod: tvm.IRModule, target: tvm.target.Target) -> tvm.IRModule:
    """Schedule every PrimFunc of ``mod`` that has none yet, for x86."""
    return ScheduleCPU(target)(mod)


@tvm.transform.module_pass(opt_level=0, name="ScheduleCPU")
class ScheduleCPU:
    """The pass behind ``schedule_cpu``; ``report`` tells which rule took which function."""

    def __init__(self, target: tvm.target.Target) -> None:
        self.target = target
        self.report = ScheduleReport()

    def transform_module(
        self, mod: tvm.IRModule, _context: tvm.transform.PassContext
    ) -> tvm.IRModule:
        """Apply the pass."""
        lanes = float32_lanes(self.target)
        # A reshape that copies becomes a view before it would get a schedule.
        mod = relax.transform.RewriteDataflowReshape()(mod)
        mod = relax.transform.DeadCodeElimination()(mod)
        for var, func in list(mod.functions_items()):
            if isinstance(func, tirx.PrimFunc) and not func.attrs.get(SCHEDULED, False):
                try:
                    scheduled, rule = schedule_function(func, lanes)
                except UnsupportedError as err:
                    rule = f"fallback: {err}"
                    scheduled = func
                self.report.rules[var.name_hint] = rule
                mod.update_func(var, scheduled)
        return mod
