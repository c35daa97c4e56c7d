"""Schedule every PrimFunc of a module that has no schedule yet."""

from __future__ import annotations

from dataclasses import dataclass, field

import tvm
from tvm import tirx
from tvm.tirx import PrimFunc

from moonpoly.compiler.schedule.emitter import Emitter
from moonpoly.compiler.schedule.phases import emit_phases
from moonpoly.compiler.schedule.stages import read_program
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
    emitter = Emitter(program, lanes)
    emit_phases(emitter)
    scheduled = func.with_body(emitter.statement())
    return scheduled.with_attr(SCHEDULED, True), "phases"


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
