"""Sequences of tensors, and optional values of which it is known whether they are there.

A sequence is an array of tensors at run time (``src/ops/sequence.cc``); what is known of its
tensors goes along with it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import tvm
from tvm import relax

from moonpoly.compiler.frontend.converters.registry import Converted, converts
from moonpoly.compiler.frontend.graph.context import Context
from moonpoly.compiler.frontend.graph.outlines import bring_out, join, outline_of
from moonpoly.compiler.frontend.node.values import Integer, Outline, Value


def _tensors(ctx: Context, index: int) -> Outline:
    """Return what is known of the tensors of the sequence that operand ``index`` is."""
    value = ctx.values[index]
    if value is None or value.item is None:
        ctx.unsupported(f"operand {index} is not a sequence")
    return value.item


def _call(ctx: Context, name: str, args: Sequence[Any], outline: Outline | None) -> Value:
    """Emit the call of a C++ operator that returns a sequence, or a tensor, as outlined."""
    exprs = [arg if isinstance(arg, tvm.ir.Expr) else relax.prim_value(arg) for arg in args]
    ty = relax.TensorType([], "int64") if outline is None else outline.type
    result = ctx.emit(relax.op.call_pure_packed(f"moonpoly.op.sequence_{name}", *exprs, ty_args=ty))
    return Value(expr=result) if outline is None else bring_out(ctx, result, outline)


def _all_of(ctx: Context, outlines: Sequence[Outline]) -> Outline:
    first, *rest = (replace(outline, is_sequence=True) for outline in outlines)
    for outline in rest:
        first = join(ctx, first, outline)
    return first


@converts("SequenceConstruct")
def construct(ctx: Context) -> Converted:
    """A sequence of the operands."""
    outlines = [outline_of(ctx, value) for value in ctx.values if value is not None]
    return _call(ctx, "construct", ctx.inputs, _all_of(ctx, outlines))


@converts("SequenceEmpty")
def empty(ctx: Context) -> Converted:
    """A sequence of nothing."""
    return _call(ctx, "construct", [], Outline("", None, is_sequence=True))


@converts("SequenceAt")
def at(ctx: Context) -> Converted:
    """The tensor at a position."""
    outline = replace(_tensors(ctx, 0), is_sequence=False)
    if not outline.dtype:
        ctx.unsupported("nothing is known of the tensors of the sequence")
    return _call(ctx, "at", [ctx.input(0), ctx.input(1)], outline)


@converts("SequenceLength")
def length(ctx: Context) -> Converted:
    """The number of tensors."""
    _tensors(ctx, 0)
    return _call(ctx, "length", [ctx.input(0)], None)


@converts("SequenceInsert")
def insert(ctx: Context) -> Converted:
    """A sequence with one tensor more."""
    value = ctx.values[1]
    assert value is not None, "the checker wants the tensor"
    outline = _all_of(ctx, [_tensors(ctx, 0), outline_of(ctx, value)])
    if ctx.has_input(2):
        return _call(ctx, "insert", [ctx.input(0), ctx.input(1), ctx.input(2)], outline)
    return _call(ctx, "append", [ctx.input(0), ctx.input(1)], outline)


@converts("SequenceErase")
def erase(ctx: Context) -> Converted:
    """A sequence with one tensor less."""
    last = relax.const(np.array(-1), "int64")
    position = ctx.input(1) if ctx.has_input(1) else last
    return _call(ctx, "erase", [ctx.input(0), position], _tensors(ctx, 0))


@converts("ConcatFromSequence")
def concat(ctx: Context) -> Converted:
    """The tensors joined along an axis of theirs, or along a new one."""
    tensors = _tensors(ctx, 0)
    if tensors.dims is None:
        ctx.unsupported("the rank of the tensors of the sequence must be known")
    new_axis = bool(ctx.attrs.get("new_axis", 0))
    rank = len(tensors.dims) + new_axis
    axis = ctx.attrs["axis"]
    if not -rank <= axis < rank:
        ctx.unsupported(f"axis {axis} of a result of rank {rank}")
    axis %= rank
    dims: list[Integer | None] = list(tensors.dims)
    dims[axis : axis if new_axis else axis + 1] = [None]
    args = [ctx.input(0), axis, int(new_axis)]
    return _call(ctx, "concat", args, Outline(tensors.dtype, tuple(dims)))


@converts("SplitToSequence")
def split(ctx: Context) -> Converted:
    """Parts of a tensor along an axis."""
    tensor, rank = ctx.input(0), ctx.rank(0)
    if tensor is None or rank is None:
        ctx.unsupported("the rank of the operand must be known")
    axis = ctx.attrs.get("axis", 0) % rank
    shape = ctx.shape(0)
    dims: list[Integer | None] = list(shape) if shape is not None else [None] * rank
    keep_axis = ctx.has_input(1) or bool(ctx.attrs.get("keepdims", 1))
    if ctx.has_input(1):
        sizes, dims[axis] = ctx.input(1), None
    else:
        sizes, dims[axis] = relax.const(np.array(1), "int64"), 1
    if not keep_axis:
        del dims[axis]
    outline = Outline(ctx.dtype(tensor), tuple(dims), is_sequence=True)
    return _call(ctx, "split", [tensor, sizes, axis, int(keep_axis)], outline)


@converts("Identity")
def identity(ctx: Context) -> Converted:
    """The operand, with all that is known of it."""
    return ctx.values[0]


@converts("Optional")
def optional(ctx: Context) -> Converted:
    """The operand, which is there."""
    if not ctx.has_input(0):
        ctx.unsupported("an optional value that is not there")
    return ctx.values[0]


@converts("OptionalGetElement")
def optional_get_element(ctx: Context) -> Converted:
    """What is there."""
    return ctx.values[0]


@converts("OptionalHasElement")
def optional_has_element(ctx: Context) -> Converted:
    """Whether there is an operand."""
    return Value(array=np.array(ctx.has_input(0)))
