"""Schedule every PrimFunc of a module that has no schedule yet."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field

import tvm
from tvm import relax, tirx
from tvm.s_tir import SBlock, SBlockRealize
from tvm.tirx import PrimFunc

from moonpoly.compiler.schedule.emitter import Emitter
from moonpoly.compiler.schedule.expression import loads
from moonpoly.compiler.schedule.phases import emit_phases
from moonpoly.compiler.schedule.row_program import match_rows
from moonpoly.compiler.schedule.rule_fallback import schedule_fallback
from moonpoly.compiler.schedule.rule_rows import emit_rows
from moonpoly.compiler.schedule.rule_window import emit_window
from moonpoly.compiler.schedule.stages import Program, read_program
from moonpoly.compiler.schedule.window import match_window
from moonpoly.error import UnsupportedError

# A function with this attribute is final: it needs no pass that reasons about blocks.
SCHEDULED = "tirx.is_scheduled"
# Names the rule that made a function.
RULE = "moonpoly.schedule_rule"
FALLBACK = "fallback"


@dataclass
class ScheduleReport:
    """What a pass did.

    Parameters
    ----------
    rules
        The rule that took each function.
    reasons
        Why the fall-back had to take a function, for each of those.
    """

    rules: dict[str, str] = field(default_factory=dict)
    reasons: dict[str, str] = field(default_factory=dict)

    def counts(self) -> Counter[str]:
        """Return how many functions each rule took."""
        return Counter(self.rules.values())


def float32_lanes(target: tvm.target.Target) -> int:
    """Return how many float32 a vector register of ``target`` holds: 16 with AVX-512, else 8."""
    width = tvm.get_global_func("target.llvm_get_vector_width")(target)
    return 16 if width >= 512 else 8


def _emit_window(emitter: Emitter) -> None:
    emit_window(emitter, match_window(emitter.program))


def _emit_rows(emitter: Emitter) -> None:
    emit_rows(emitter, match_rows(emitter.program))


# From the most special to the most general; the first that can read a program takes it.
RULES: tuple[tuple[str, Callable[[Emitter], None]], ...] = (
    ("window", _emit_window),
    ("rows", _emit_rows),
    ("phases", emit_phases),
)


def schedule_function(func: PrimFunc, lanes: int) -> tuple[PrimFunc, str]:
    """Return ``func`` with a schedule, and the name of the rule that made it.

    Raises
    ------
    UnsupportedError
        If no rule can read the function.
    """
    program = read_program(func)
    _check_types(program)
    emitter, rule = _emit(program, lanes)
    # Passes of Relax that run later expect a root block.
    root = SBlock([], [], [], "root", emitter.statement())
    scheduled = func.with_body(SBlockRealize([], tirx.const(True, "bool"), root))
    return scheduled.with_attr({SCHEDULED: True, RULE: rule}), rule


def _check_types(program: Program) -> None:
    """Refuse types that are computed with as another: the passes that do so expect plain loops."""
    buffers = [stage.buffer for stage in program.stages]
    buffers += [load.source for stage in program.stages for load in loads(stage.value)]
    for buffer in buffers:
        dtype = str(buffer.ty.dtype)
        if dtype.startswith(("bfloat", "float4", "float6", "float8")) or dtype.endswith("int4"):
            raise UnsupportedError(f"expected {buffer.name} to be of a type of x86, got {dtype}")


def _emit(program: Program, lanes: int) -> tuple[Emitter, str]:
    for name, emit in RULES:
        emitter = Emitter(program, lanes)
        try:
            emit(emitter)
        except UnsupportedError as err:
            refusal = err
        else:
            return emitter, name
    raise refusal


@tvm.transform.module_pass(opt_level=0, name="ScheduleCPU")
class ScheduleCPU:
    """Schedule every PrimFunc that has no schedule yet, for x86.

    Runs after ``LegalizeOps``, ``FuseOps`` and ``FuseTIR``; leaves no function without a ``RULE``.

    Attributes
    ----------
    report
        Which rule took which function.
    """

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
            if not isinstance(func, PrimFunc) or SCHEDULED in func.attrs or RULE in func.attrs:
                continue
            try:
                scheduled, rule = schedule_function(func, lanes)
            except UnsupportedError as err:
                scheduled, rule = schedule_fallback(func).with_attr(RULE, FALLBACK), FALLBACK
                self.report.reasons[var.name_hint] = str(err)
            self.report.rules[var.name_hint] = rule
            mod.update_func(var, scheduled)
        return mod


def schedule_cpu(mod: tvm.IRModule, target: tvm.target.Target) -> tvm.IRModule:
    """Schedule every PrimFunc of ``mod`` that has none yet.

    Parameters
    ----------
    mod
        A module after ``LegalizeOps``, ``FuseOps`` and ``FuseTIR``.
    target
        TVM's target of the generated code: x86 with AVX2 or AVX-512.

    Returns
    -------
    mod
        The module; each function's attribute ``moonpoly.schedule_rule`` names its rule.
    """
    return tvm.transform.Sequential([ScheduleCPU(target)])(mod)
