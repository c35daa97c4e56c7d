"""Activations of ONNX Runtime's own domain, and those of the newest opsets."""

from __future__ import annotations

import math

from tvm import relax

from moonpoly.compiler.frontend.converters.registry import converts
from moonpoly.compiler.frontend.graph.context import Context


def _first(ctx: Context) -> relax.Expr:
    data = ctx.input(0)
    assert data is not None, "the checker wants a first input"
    return data


def _with_bias(ctx: Context) -> relax.Expr:
    data, bias = _first(ctx), ctx.input(1)
    return data if bias is None else ctx.emit(relax.op.add(data, bias))


@converts("Gelu", "BiasGelu", domain="com.microsoft")
def _gelu(ctx: Context) -> relax.Expr:
    return relax.op.nn.gelu(_with_bias(ctx))


@converts("FastGelu", domain="com.microsoft")
def _fast_gelu(ctx: Context) -> relax.Expr:
    return relax.op.nn.gelu_tanh(_with_bias(ctx))


@converts("QuickGelu", domain="com.microsoft")
def _quick_gelu(ctx: Context) -> relax.Expr:
    return _swish(ctx, ctx.attrs.get("alpha", 1.702))


@converts("Swish")
def _standard_swish(ctx: Context) -> relax.Expr:
    return _swish(ctx, ctx.attrs.get("alpha", 1.0))


def _swish(ctx: Context, alpha: float) -> relax.Expr:
    data = _first(ctx)
    scaled = data
    if alpha != 1.0:
        scaled = ctx.emit(relax.op.multiply(data, relax.const(alpha, ctx.dtype(data))))
    return relax.op.multiply(data, ctx.emit(relax.op.sigmoid(scaled)))


@converts("Gelu")
def _standard_gelu(ctx: Context) -> relax.Expr:
    if ctx.attrs.get("approximate", "none") == "tanh":
        return relax.op.nn.gelu_tanh(_first(ctx))
    # Written out: a double has no less than its own precision.
    data = _first(ctx)
    dtype = ctx.dtype(data)
    scaled = ctx.emit(relax.op.multiply(data, relax.const(math.sqrt(0.5), dtype)))
    half = ctx.emit(relax.op.multiply(data, relax.const(0.5, dtype)))
    one_more = ctx.emit(relax.op.add(ctx.emit(relax.op.erf(scaled)), relax.const(1.0, dtype)))
    return relax.op.multiply(half, one_more)
