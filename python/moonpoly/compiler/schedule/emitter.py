"""Turn the scalar expressions of stages into vector code.

Producers are inlined where they are read, and every value is computed once in its scope.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from tvm import tirx
from tvm.ir import Call, Expr, TensorLoad, Var

from moonpoly.compiler.schedule import vector_math
from moonpoly.compiler.schedule.expression import (
    children,
    constant_int,
    fingerprint,
    int32,
    is_integer,
    num_lanes,
    rebuild,
    scalar_dtype,
)
from moonpoly.compiler.schedule.stages import Program, Stage
from moonpoly.compiler.schedule.vector_builder import VectorBuilder
from moonpoly.error import UnsupportedError

_ROUNDING = ("tirx.nearbyint", "tirx.round")


@dataclass(frozen=True)
class Frame:
    """One evaluation of a stage's value: its axes as indices, and a key that tells it apart."""

    env: dict[Var, Expr] = field(repr=False)
    key: object


# Gives the element at indices of a buffer that isn't inlined.
Reader = Callable[["Emitter", list[Expr]], Expr]


class Emitter(VectorBuilder):
    """Emits the values of a program's stages, ``lanes`` at a time.

    Attributes
    ----------
    resident
        Buffers whose elements are at hand: functions from indices to the value.
    """

    def __init__(self, program: Program, lanes: int) -> None:
        super().__init__(lanes)
        self.program = program
        self.resident: dict[Var, Reader] = {}

    def element(self, stage: Stage, indices: list[Expr]) -> Expr:
        """Return the value that ``stage`` stores at ``indices``; of a reduction, the term."""
        env = {axis.var: index for axis, index in zip(stage.axes, indices, strict=True)}
        key = (stage.buffer.__chandle__(), *(fingerprint(index) for index in indices))
        return self.value(stage.value, Frame(env, key))

    def value(self, expr: Expr, frame: Frame) -> Expr:
        """Return ``expr`` with the frame's indices: a scalar, a vector, or symbolic in ``lane``."""
        if isinstance(expr, (tirx.IntImm, tirx.FloatImm)):
            return expr
        if isinstance(expr, Var):
            return frame.env.get(expr, expr)
        key = (frame.key, expr.__chandle__())
        if key in self.known:
            return self.known[key]
        result = self._compute(expr, frame)
        self.known[key] = result
        return result

    def _compute(self, expr: Expr, frame: Frame) -> Expr:
        if isinstance(expr, TensorLoad):
            return self._load(expr.source, [self.value(index, frame) for index in expr.indices])
        if isinstance(expr, tirx.Select):
            operands = [self.value(operand, frame) for operand in children(expr)]
            return self._select(*operands)
        if isinstance(expr, Call) and expr.op.name.endswith("if_then_else"):
            return self._conditional(expr, frame)
        if isinstance(expr, Call) and expr.op.name in _ROUNDING:
            return self._call(expr, [self._exact(operand, frame) for operand in children(expr)])
        operands = [self.value(operand, frame) for operand in children(expr)]
        if isinstance(expr, Call):
            return self._call(expr, operands)
        if isinstance(expr, tirx.Div) and not is_integer(expr):
            return self._divide(expr, *operands)
        if isinstance(expr, tirx.Cast):
            return self._cast(expr, operands[0])
        if (truth := _truth_value(expr, operands)) is not None:
            return truth
        return self._combine(expr, operands)

    def _exact(self, expr: Expr, frame: Frame) -> Expr:
        """Evaluate what is about to be rounded: the last bit decides what a tie becomes."""
        if isinstance(expr, (tirx.Div, tirx.Add)) and not is_integer(expr):
            return self._combine(expr, [self._exact(operand, frame) for operand in children(expr)])
        return self.value(expr, frame)

    def _divide(self, expr: tirx.Div, dividend: Expr, divisor: Expr) -> Expr:
        if isinstance(expr.b, tirx.Cast) and is_integer(expr.b.value):
            # The average of a window: of quantised numbers it is a tie often enough for the last
            # bit to decide what it is rounded to.
            return self._combine(expr, [dividend, divisor])
        if isinstance(divisor, tirx.FloatImm) and float(divisor.value) != 0.0:
            inverse: Expr = tirx.FloatImm(scalar_dtype(divisor), 1.0 / float(divisor.value))
        elif self.varies(dividend) and not self.varies(divisor):
            # One division for all lanes; LLVM takes it out of loops that don't change it.
            one = tirx.const(1.0, scalar_dtype(divisor))
            inverse = self.opaque(one / divisor, "inverse")
        else:
            return self._combine(expr, [dividend, divisor])
        return self._combine(tirx.Mul(expr.a, expr.b), [dividend, inverse])

    def _combine(self, expr: Expr, operands: list[Expr]) -> Expr:
        """Rebuild ``expr``; widen the operands if any of them is a vector already."""
        symbolic = all(num_lanes(operand) == 1 and is_integer(operand) for operand in operands)
        if not symbolic and any(self.varies(operand) for operand in operands):
            operands = [self.widen(operand) for operand in operands]
        result = rebuild(expr, operands)
        if symbolic:
            return result
        return self.bind(result)

    def _cast(self, expr: Expr, operand: Expr) -> Expr:
        symbolic = is_integer(expr) and is_integer(operand) and num_lanes(operand) == 1
        if symbolic and (scalar_dtype(operand) != "bool" or not self.varies(operand)):
            return rebuild(expr, [operand])
        if self.varies(operand):
            operand = self.widen(operand)
        result = rebuild(expr, [operand])
        return result if scalar_dtype(operand) == "bool" else self.bind(result)

    def _select(self, condition: Expr, then: Expr, otherwise: Expr) -> Expr:
        parts = [condition, then, otherwise]
        if any(self.varies(part) for part in parts):
            parts = [self.widen(part) for part in parts]
        return self.bind(tirx.Select(*parts))

    def _conditional(self, expr: Call, frame: Frame) -> Expr:
        condition, then, otherwise = expr.args
        holds = self.value(condition, frame)
        if (fixed := constant_int(self.analyzer.simplify(holds))) is not None:
            return self.value(then if fixed else otherwise, frame)
        with self.guarded(holds):
            value = self.value(then, frame)
        with self.guarded(tirx.Not(holds)):
            other = self.value(otherwise, frame)
        return self._select(holds, value, other)

    def _call(self, expr: Call, operands: list[Expr]) -> Expr:
        name = expr.op.name.split(".")[-1]
        if any(self.varies(operand) for operand in operands):
            operands = [self.widen(operand) for operand in operands]
        if name == "isnan":
            return vector_math.is_nan(operands[0])
        if scalar_dtype(expr) == "float32":
            if name in vector_math.FUNCTIONS:
                return vector_math.FUNCTIONS[name](self, self.bind(operands[0]))
            if name == "pow" and isinstance(expr.args[1], tirx.FloatImm):
                value = vector_math.power(self, self.bind(operands[0]), float(expr.args[1].value))
                if value is not None:
                    return self.bind(value)
        if name in vector_math.NATIVE or num_lanes(operands[0]) == 1:
            return self.bind(rebuild(expr, operands))
        # One call of the library for each lane.
        operands = [self.bind(operand) for operand in operands]
        results = [
            rebuild(expr, [tirx.Shuffle([operand], [int32(lane)]) for operand in operands])
            for lane in range(self.lanes)
        ]
        return self.bind(self.pack(results))

    def _load(self, buffer: Var, indices: list[Expr]) -> Expr:
        if buffer in self.resident:
            return self.resident[buffer](self, indices)
        producer = self.program.producers.get(buffer)
        if producer is not None and buffer in self.program.intermediates:
            if producer.is_reduction:
                raise UnsupportedError(f"expected {buffer.name} to be computed before it is read")
            return self.element(producer, indices)
        return self.load(buffer, self.offset(buffer, indices))


def _truth_value(expr: Expr, operands: list[Expr]) -> Expr | None:
    """Return the condition behind ``0 < cast(condition)``, which is how ONNX's Where arrives."""
    if isinstance(expr, tirx.LT) and constant_int(operands[0]) == 0:
        cast = operands[1]
        if isinstance(cast, tirx.Cast) and scalar_dtype(cast.value) == "bool":
            return cast.value
    return None
