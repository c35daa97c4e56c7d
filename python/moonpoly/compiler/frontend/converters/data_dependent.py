"""Operators whose results' sizes depend on data: C++ operators (``src/ops``) that allocate them.

Every size that is found at run time gets a symbolic dimension, so that what follows is compiled as
for any other.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from tvm import relax

from moonpoly.compiler.frontend.converters.packed_call import call_packed
from moonpoly.compiler.frontend.converters.registry import converts
from moonpoly.compiler.frontend.graph.context import Context
from moonpoly.compiler.frontend.node.values import Integer

_UNLIMITED = np.finfo(np.float32).min


def _data(ctx: Context, index: int = 0) -> tuple[relax.Expr, tuple[Integer, ...]]:
    tensor, shape = ctx.input(index), ctx.shape(index)
    if tensor is None or shape is None:
        ctx.unsupported("the rank of the operand must be known")
    return tensor, shape


def _flat(ctx: Context, tensor: relax.Expr) -> tuple[relax.Expr, tuple[Integer, ...]]:
    flat = ctx.emit(relax.op.reshape(tensor, (-1,)))
    shape = ctx.shape(flat)
    assert shape is not None, "the operand's shape is known"
    return flat, shape


def _axis(ctx: Context, axis: int, rank: int) -> int:
    if not -rank <= axis < rank:
        ctx.unsupported(f"axis {axis} of a tensor of rank {rank}")
    return axis % rank


@converts("NonZero")
def non_zero(ctx: Context) -> Sequence[relax.Expr]:
    """One column for each element that is not zero."""
    tensor, shape = _data(ctx)
    if not shape:
        tensor, shape = _flat(ctx, tensor)
    found = (len(shape), ctx.new_dim("nonzero"))
    return call_packed(ctx, "moonpoly.op.nonzero", [tensor], [found], ["int64"])


@converts("Compress")
def compress(ctx: Context) -> Sequence[relax.Expr]:
    """Slices along an axis, or elements, whose condition holds."""
    tensor, shape = _data(ctx)
    if "axis" in ctx.attrs:
        axis = _axis(ctx, ctx.attrs["axis"], len(shape))
    else:
        axis = 0
        tensor, shape = _flat(ctx, tensor)
    kept = [*shape[:axis], ctx.new_dim("compressed"), *shape[axis + 1 :]]
    args = [tensor, ctx.input(1), axis]
    return call_packed(ctx, "moonpoly.op.compress", args, [kept], [ctx.dtype(tensor)])


@converts("TopK")
def top_k(ctx: Context) -> Sequence[relax.Expr]:
    """Largest or smallest elements along an axis, in order; k may depend on data."""
    tensor, shape = _data(ctx)
    axis = _axis(ctx, ctx.attrs.get("axis", -1), len(shape))
    k: Integer
    if ctx.opset < 10:
        k = ctx.attrs["k"]
        count: relax.Expr = relax.const(np.array([k]), "int64")
    else:
        counts, operand = ctx.read_integers(1), ctx.input(1)
        if counts is None or counts.size != 1 or operand is None:
            ctx.unsupported("K must be one integer")
        k, count = counts.reshape(-1)[0], operand
    best = [*shape[:axis], k, *shape[axis + 1 :]]
    args = [tensor, count, axis, int(ctx.attrs.get("largest", 1))]
    return call_packed(ctx, "moonpoly.op.topk", args, [best, best], [ctx.dtype(tensor), "int64"])


@converts("Unique")
def unique(ctx: Context) -> Sequence[relax.Expr | None]:
    """The slices along an axis, or the elements, that differ."""
    tensor, shape = _data(ctx)
    axis = 0
    if "axis" in ctx.attrs:
        axis = _axis(ctx, ctx.attrs["axis"], len(shape))
        tensor, shape = _swapped(ctx, tensor, axis), tuple(_swap(shape, axis))
    else:
        tensor, shape = _flat(ctx, tensor)
    count = ctx.new_dim("unique")
    shapes = [(count, *shape[1:]), (count,), (shape[0],), (count,)]
    args = [tensor, int(ctx.attrs.get("sorted", 1))]
    dtypes = [ctx.dtype(tensor), "int64", "int64", "int64"]
    values, *rest = call_packed(ctx, "moonpoly.op.unique", args, shapes, dtypes)
    return [_swapped(ctx, values, axis), *rest][: ctx.num_outputs]


def _swap(items: Sequence[Any], axis: int) -> list[Any]:
    swapped = list(items)
    swapped[0], swapped[axis] = swapped[axis], swapped[0]
    return swapped


def _swapped(ctx: Context, tensor: relax.Expr, axis: int) -> relax.Expr:
    """Exchange the first axis and another."""
    rank = ctx.rank(tensor)
    if axis == 0 or rank is None:
        return tensor
    return ctx.emit(relax.op.permute_dims(tensor, _swap(range(rank), axis)))


@converts("NonMaxSuppression")
def non_max_suppression(ctx: Context) -> Sequence[relax.Expr]:
    """Rows of batch element, class and box."""
    boxes, _ = _data(ctx, 0)
    scores, _ = _data(ctx, 1)
    if ctx.dtype(boxes) != "float32" or ctx.dtype(scores) != "float32":
        ctx.unsupported(f"boxes of {ctx.dtype(boxes)}; only float32 is supported")
    most = ctx.input(2) if ctx.has_input(2) else relax.const(np.array([0]), "int64")
    overlap = ctx.input(3) if ctx.has_input(3) else relax.const(np.array([0.0]), "float32")
    least = ctx.input(4) if ctx.has_input(4) else relax.const(np.array([_UNLIMITED]), "float32")
    args = [boxes, scores, most, overlap, least, int(ctx.attrs.get("center_point_box", 0))]
    shape = (ctx.new_dim("selected"), 3)
    return call_packed(ctx, "moonpoly.op.non_max_suppression", args, [shape], ["int64"])
