"""The table of Relax operators that can follow a matrix product in place, and what they compute.

A rule takes a binder, the operands as TIR expressions of equal lanes, and the Relax call, and
returns the result. An operator is fusible exactly if it is in the table.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import tvm
from tvm import tirx
from tvm.ir import Expr
from tvm.tirx import op

from moonpoly.compiler.schedule.vector_math import Binder, constant, erf, exp, power, sigmoid, tanh

Rule = Callable[[Binder, Sequence[Expr], tvm.ir.Call], Expr]

_SQRT_HALF = math.sqrt(0.5)
# Of the tanh form of GELU.
_GELU_TANH_SCALE = math.sqrt(2 / math.pi)
_GELU_TANH_CUBIC = 0.044715


def find_rule(call: tvm.ir.Call) -> Rule | None:
    """Return the rule of ``call``, or None if it can't be fused."""
    if not isinstance(call.op, tvm.ir.Op):
        return None
    if call.op.name == "relax.power" and _exponent(call) not in (0.5, 1.0, 2.0, 3.0, 4.0, -1.0):
        return None
    return _RULES.get(call.op.name)


def _exponent(call: tvm.ir.Call) -> float | None:
    value = call.args[1]
    if isinstance(value, tvm.ir.GenericConst) and value.value.numpy().size == 1:
        return float(value.value.numpy())
    return None


def _maximum(a: Expr, b: Expr) -> Expr:
    # A NaN in `a` compares false with everything and is kept, as ONNX has it.
    return tirx.Select(a < b, b, a)


def _minimum(a: Expr, b: Expr) -> Expr:
    return tirx.Select(a > b, b, a)


def _relu(binder: Binder, x: Sequence[Expr], call: tvm.ir.Call) -> Expr:
    return _maximum(x[0], constant(0.0, x[0]))


def _leaky_relu(binder: Binder, x: Sequence[Expr], call: tvm.ir.Call) -> Expr:
    scaled = x[0] * constant(float(call.attrs.alpha), x[0])
    return tirx.Select(x[0] < constant(0.0, x[0]), scaled, x[0])


def _clip(binder: Binder, x: Sequence[Expr], call: tvm.ir.Call) -> Expr:
    low, high = (float(bound.value) for bound in call.args[1:])
    return _minimum(_maximum(x[0], constant(low, x[0])), constant(high, x[0]))


def _gelu(binder: Binder, x: Sequence[Expr], call: tvm.ir.Call) -> Expr:
    inner = binder.bind(x[0] * constant(_SQRT_HALF, x[0]), "inner")
    return x[0] * constant(0.5, x[0]) * (constant(1.0, x[0]) + erf(binder, inner))


def _gelu_tanh(binder: Binder, x: Sequence[Expr], call: tvm.ir.Call) -> Expr:
    cubic = constant(_GELU_TANH_CUBIC, x[0]) * x[0] * x[0] * x[0]
    inner = binder.bind(constant(_GELU_TANH_SCALE, x[0]) * (x[0] + cubic), "inner")
    return x[0] * constant(0.5, x[0]) * (constant(1.0, x[0]) + tanh(binder, inner))


def _silu(binder: Binder, x: Sequence[Expr], call: tvm.ir.Call) -> Expr:
    return x[0] * sigmoid(binder, x[0])


def _power(binder: Binder, x: Sequence[Expr], call: tvm.ir.Call) -> Expr:
    exponent = _exponent(call)
    assert exponent is not None, "find_rule() lets constant exponents through only"
    value = power(binder, x[0], exponent)
    assert value is not None, "find_rule() lets known exponents through only"
    return value


def _unary(function: Callable[[Binder, Expr], Expr]) -> Rule:
    return lambda binder, x, call: function(binder, x[0])


def _binary(function: Callable[[Expr, Expr], Expr]) -> Rule:
    return lambda binder, x, call: function(x[0], x[1])


_RULES: dict[str, Rule] = {
    "relax.add": _binary(lambda a, b: a + b),
    "relax.subtract": _binary(lambda a, b: a - b),
    "relax.multiply": _binary(lambda a, b: a * b),
    "relax.divide": _binary(tirx.div),
    "relax.maximum": _binary(_maximum),
    "relax.minimum": _binary(_minimum),
    "relax.power": _power,
    "relax.negative": _unary(lambda binder, x: constant(0.0, x) - x),
    "relax.abs": _unary(lambda binder, x: op.call_intrin(x.ty.dtype, "tirx.fabs", x)),
    "relax.sqrt": _unary(lambda binder, x: op.call_intrin(x.ty.dtype, "tirx.sqrt", x)),
    "relax.square": _unary(lambda binder, x: x * x),
    "relax.exp": _unary(exp),
    "relax.erf": _unary(erf),
    "relax.tanh": _unary(tanh),
    "relax.sigmoid": _unary(sigmoid),
    "relax.clip": _clip,
    "relax.nn.relu": _relu,
    "relax.nn.leakyrelu": _leaky_relu,
    "relax.nn.gelu": _gelu,
    "relax.nn.gelu_tanh": _gelu_tanh,
    "relax.nn.silu": _silu,
}
