"""Operators that work element by element."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable

import tvm
from tvm import relax

from moonpoly.compiler.frontend.converters.registry import converts
from moonpoly.compiler.frontend.graph.context import Context


@converts("Clip")
def _clip(ctx: Context) -> relax.Expr | None:
    """Clip by constants without two comparisons with tensors."""
    data = ctx.inputs[0]
    assert data is not None, "the checker wants a first input"
    if ctx.opset < 11:
        bounds = [ctx.attrs.get("min", -math.inf), ctx.attrs.get("max", math.inf)]
    else:
        bounds = []
        for index, default in ((1, -math.inf), (2, math.inf)):
            if not ctx.has_input(index):
                bounds.append(default)
                continue
            value = ctx.constant(index)
            if value is None or value.size != 1:
                return None
            bound = float(value.reshape(()))
            bounds.append(default if math.isnan(bound) else bound)
    low, high = bounds
    dtype = ctx.dtype(data)
    if math.isfinite(low) and math.isfinite(high):
        return relax.op.clip(data, _number(low, dtype), _number(high, dtype))
    if math.isfinite(low):
        return relax.op.maximum(data, relax.const(low, dtype))
    if math.isfinite(high):
        return relax.op.minimum(data, relax.const(high, dtype))
    return data


def _number(value: float, dtype: str) -> float | int:
    return int(value) if "int" in dtype else float(value)


_VARIADIC: dict[str, Callable[[relax.Expr, relax.Expr], tvm.ir.Call]] = {
    "Max": relax.op.maximum,
    "Min": relax.op.minimum,
    "Sum": relax.op.add,
}


@converts(*_VARIADIC)
def _variadic(ctx: Context) -> relax.Expr:
    """Combine any number of operands, two at a time."""
    combine = _VARIADIC[ctx.op]
    return functools.reduce(lambda left, right: ctx.emit(combine(left, right)), ctx.inputs)


# The standard's own defaults, which are not quite the activation's.
_SELU_ALPHA = 1.67326319217681884765625
_SELU_GAMMA = 1.05070102214813232421875


@converts("Elu", "Selu")
def _elu(ctx: Context) -> relax.Expr:
    """An exponential below zero, in the operand's own type."""
    data, dtype = ctx.input(0), ctx.dtype(0)
    alpha = ctx.attrs.get("alpha", 1.0 if ctx.op == "Elu" else _SELU_ALPHA)
    one = relax.const(1.0, dtype)
    below = ctx.emit(relax.op.nn.relu(ctx.emit(relax.op.subtract(one, relax.op.exp(data)))))
    scaled = ctx.emit(relax.op.multiply(relax.const(-alpha, dtype), below))
    result = relax.op.add(scaled, relax.op.nn.relu(data))
    if ctx.op == "Elu":
        return result
    gamma = relax.const(ctx.attrs.get("gamma", _SELU_GAMMA), dtype)
    return relax.op.multiply(gamma, ctx.emit(result))


@converts("ThresholdedRelu")
def _thresholded_relu(ctx: Context) -> relax.Expr:
    data, dtype = ctx.input(0), ctx.dtype(0)
    above = ctx.emit(relax.op.greater(data, relax.const(ctx.attrs.get("alpha", 1.0), dtype)))
    return relax.op.where(above, data, relax.const(0.0, dtype))
