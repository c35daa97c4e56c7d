"""Sums, products, extrema and norms over axes, which may be known at run time only."""

from __future__ import annotations

import functools
from collections.abc import Callable

import numpy as np
import tvm
from tvm import relax

from moonpoly.compiler.frontend.converters.registry import converts
from moonpoly.compiler.frontend.converters.sizes import (
    known_shape,
    normal_axis,
    read_dims,
)
from moonpoly.compiler.frontend.graph.context import Context
from moonpoly.compiler.frontend.graph.unify import broadcast_to
from moonpoly.compiler.ops import reduction

# Reduces a tensor by "sum", "prod", "max" or "min"; keeps the reduced axes at size 1 if told so.
Reduce = Callable[[relax.Expr, str, bool], relax.Expr]

_RELAX = {"mean": relax.op.mean, "prod": relax.op.prod, "sum": relax.op.sum}


@converts(
    *("ReduceL1", "ReduceL2", "ReduceLogSum", "ReduceLogSumExp", "ReduceMax", "ReduceMean"),
    *("ReduceMin", "ReduceProd", "ReduceSum", "ReduceSumSquare"),
)
def _reduce(ctx: Context) -> relax.Expr:
    """Reduce over constant axes, or over axes that are read at run time."""
    data = ctx.input(0)
    assert data is not None, "the checker wants a first input"
    keepdims = bool(ctx.attrs.get("keepdims", 1))
    known = ctx.constant(1) if ctx.has_input(1) else np.array(ctx.attrs.get("axes", []))
    over = _runtime_axes(ctx, data) if known is None else _constant_axes(ctx, data, known.ravel())
    return _BY_OPERATOR[ctx.op](ctx, data, over, keepdims)


def _constant_axes(ctx: Context, data: relax.Expr, given: np.ndarray) -> Reduce:
    rank = len(known_shape(ctx, data))
    axes = sorted({normal_axis(ctx, int(axis), rank) for axis in given})
    if not len(given):
        axes = [] if ctx.attrs.get("noop_with_empty_axes", 0) else list(range(rank))

    def over(x: relax.Expr, kind: str, keepdims: bool) -> relax.Expr:
        if not axes:
            return x
        if kind in _RELAX:
            return ctx.emit(_RELAX[kind](x, axes, keepdims))
        return ctx.call_te(reduction.reduce, x, kind, axes, keepdims)

    return over


def _runtime_axes(ctx: Context, data: relax.Expr) -> Reduce:
    """Give the result an axis for each of the input's, of its size or 1, then drop those of 1."""
    rank, given = len(known_shape(ctx, data)), known_shape(ctx, 1)
    if len(given) != 1:
        ctx.unsupported(f"its axes are a tensor of rank {len(given)}, expected 1")
    count = given[0]
    all_if_none = not ctx.attrs.get("noop_with_empty_axes", 0)
    hits = ctx.call_te(reduction.count_hits, ctx.input(1), rank, all_if_none)
    kept = read_dims(ctx, ctx.call_te(reduction.kept_sizes, hits, data), rank, "kept")

    @functools.cache
    def remaining() -> list[tvm.tirx.Var]:
        if not isinstance(count, int):
            ctx.unsupported("the rank of its result depends on how many axes are given at run time")
        left = rank - count if count or not all_if_none else 0
        sizes = ctx.call_te(reduction.remaining_sizes, hits, data, left) if left else None
        return read_dims(ctx, sizes, left, "kept") if left else []

    def over(x: relax.Expr, kind: str, keepdims: bool) -> relax.Expr:
        result = ctx.call_te(reduction.reduce_some, x, kind, kept)
        return result if keepdims else ctx.emit(relax.op.reshape(result, remaining()))

    return over


@converts("ArgMax", "ArgMin")
def _arg(ctx: Context) -> None:
    """Count the axis from the front, as TVM wants it before opset 11."""
    axis = normal_axis(ctx, ctx.attrs.get("axis", 0), len(known_shape(ctx, 0)))
    ctx.replace_attributes(axis=axis)


def _sum(ctx: Context, data: relax.Expr, over: Reduce, keepdims: bool) -> relax.Expr:
    return over(data, "sum", keepdims)


def _prod(ctx: Context, data: relax.Expr, over: Reduce, keepdims: bool) -> relax.Expr:
    return over(data, "prod", keepdims)


def _mean(ctx: Context, data: relax.Expr, over: Reduce, keepdims: bool) -> relax.Expr:
    if ctx.constant(1) is not None or not ctx.has_input(1):
        return over(data, "mean", keepdims)
    total = over(data, "sum", keepdims)
    # As many elements as are summed up.
    sizes = over(ctx.emit(relax.op.ones_like(data)), "sum", keepdims)
    return ctx.emit(relax.op.divide(total, sizes))


def _max(ctx: Context, data: relax.Expr, over: Reduce, keepdims: bool) -> relax.Expr:
    if ctx.dtype(data) == "bool":
        narrow = ctx.emit(relax.op.astype(data, "uint8"))
        return ctx.emit(relax.op.astype(_max(ctx, narrow, over, keepdims), "bool"))
    return over(data, "max" if ctx.op == "ReduceMax" else "min", keepdims)


def _l1(ctx: Context, data: relax.Expr, over: Reduce, keepdims: bool) -> relax.Expr:
    return over(ctx.emit(relax.op.abs(data)), "sum", keepdims)


def _sum_square(ctx: Context, data: relax.Expr, over: Reduce, keepdims: bool) -> relax.Expr:
    return over(ctx.emit(relax.op.multiply(data, data)), "sum", keepdims)


def _l2(ctx: Context, data: relax.Expr, over: Reduce, keepdims: bool) -> relax.Expr:
    return ctx.emit(relax.op.sqrt(_sum_square(ctx, data, over, keepdims)))


def _log_sum(ctx: Context, data: relax.Expr, over: Reduce, keepdims: bool) -> relax.Expr:
    return ctx.emit(relax.op.log(over(data, "sum", keepdims)))


def _log_sum_exp(ctx: Context, data: relax.Expr, over: Reduce, keepdims: bool) -> relax.Expr:
    """Subtract the largest element first, so that no exponential overflows."""
    dtype, sizes = ctx.dtype(data), known_shape(ctx, data)
    largest = over(data, "max", True)
    # Infinities would make a difference of infinities, not a number.
    finite = ctx.emit(relax.op.less(relax.op.abs(largest), relax.const(np.inf, dtype)))
    shift = ctx.emit(relax.op.where(finite, largest, relax.const(0.0, dtype)))
    # Broadcasting is not proven where the axes are known at run time only.
    spread = broadcast_to(ctx, shift, sizes)
    differences = ctx.emit(relax.op.subtract(data, spread))
    powers = ctx.emit(relax.op.exp(differences))
    total = ctx.emit(relax.op.log(over(powers, "sum", keepdims)))
    shape = ctx.shape(total)
    shift = shift if keepdims else ctx.emit(relax.op.reshape(shift, shape))
    return ctx.emit(relax.op.add(total, shift))


_BY_OPERATOR: dict[str, Callable[[Context, relax.Expr, Reduce, bool], relax.Expr]] = {
    "ReduceL1": _l1,
    "ReduceL2": _l2,
    "ReduceLogSum": _log_sum,
    "ReduceLogSumExp": _log_sum_exp,
    "ReduceMax": _max,
    "ReduceMean": _mean,
    "ReduceMin": _max,
    "ReduceProd": _prod,
    "ReduceSum": _sum,
    "ReduceSumSquare": _sum_square,
}
