"""Arithmetic of integers, of mixed types, and of bits."""

from __future__ import annotations

import functools
from collections.abc import Callable

import tvm
from tvm import relax

from moonpoly.compiler.frontend.converters.registry import converts
from moonpoly.compiler.frontend.graph.context import Context
from moonpoly.compiler.ops import arithmetic, predicate


def is_integer(dtype: str) -> bool:
    """Return whether a type is of integers, signed or not."""
    return "int" in dtype


def _elementwise(
    ctx: Context, function: Callable[[tvm.tirx.Expr, tvm.tirx.Expr], tvm.tirx.Expr]
) -> relax.Expr:
    apply = functools.partial(arithmetic.broadcast, function)
    return ctx.call_te(apply, ctx.input(0), ctx.input(1), primfunc_name_hint=ctx.op.lower())


@converts("Div")
def _div(ctx: Context) -> relax.Expr | None:
    """Divide integers as C does, and without a trap."""
    if not is_integer(ctx.dtype(0)):
        return None
    return _elementwise(ctx, arithmetic.integer_quotient)


@converts("Mod")
def _mod(ctx: Context) -> relax.Expr | None:
    c_like = bool(ctx.attrs.get("fmod", 0))
    if is_integer(ctx.dtype(0)):
        return _elementwise(ctx, arithmetic.remainder if c_like else arithmetic.modulo)
    if c_like:
        return None
    # The remainder has the divisor's sign, as in Python.
    divisor, zero = ctx.input(1), relax.const(0.0, ctx.dtype(0))
    rest = ctx.emit(relax.op.mod(ctx.input(0), divisor))
    apart = ctx.emit(relax.op.less(relax.op.multiply(rest, divisor), zero))
    return ctx.emit(relax.op.where(apart, relax.op.add(rest, divisor), rest))


@converts("Pow")
def _pow(ctx: Context) -> relax.Expr | None:
    """Raise to a power of another type; the result has the base's."""
    base, exponent = ctx.dtype(0), ctx.dtype(1)
    if not is_integer(base) and base == exponent:
        return None
    if not is_integer(base) and ctx.constant(1) is not None:
        power = ctx.emit(relax.op.astype(ctx.input(1), base))
        return ctx.emit(relax.op.power(ctx.input(0), power))
    return _elementwise(ctx, arithmetic.float_power)


@converts("BitShift")
def _bit_shift(ctx: Context) -> relax.Expr:
    to_left = ctx.attrs["direction"] == "LEFT"
    return _elementwise(ctx, arithmetic.shift_left if to_left else arithmetic.shift_right)


@converts("IsNaN")
def _is_nan(ctx: Context) -> relax.Expr:
    return ctx.call_te(predicate.is_nan, ctx.input(0))


@converts("IsInf")
def _is_inf(ctx: Context) -> relax.Expr:
    positive, negative = (bool(ctx.attrs.get(f"detect_{s}", 1)) for s in ("positive", "negative"))
    return ctx.call_te(predicate.is_infinite, ctx.input(0), positive, negative)


@converts("BitCast")
def _bit_cast(ctx: Context) -> relax.Expr:
    """Read the same bits as another type of the same width."""
    name = ctx.element_type("to")
    return ctx.call_te(predicate.reinterpret, ctx.input(0), name)
