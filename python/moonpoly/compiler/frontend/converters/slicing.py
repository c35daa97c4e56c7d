"""Operators that take ranges out of a tensor, or put something around it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import tvm
import tvm_ffi
from tvm import relax, te, tirx

from moonpoly.compiler.frontend.converters.registry import converts
from moonpoly.compiler.frontend.converters.sizes import known_shape, read_dims
from moonpoly.compiler.frontend.graph.context import Context
from moonpoly.compiler.frontend.node.values import Integer
from moonpoly.compiler.frontend.symbolic.elements import as_expr
from moonpoly.compiler.ops import bounds


@converts("Slice")
def _slice(ctx: Context) -> relax.Expr | None:
    shape = ctx.shape(0)
    if shape is None:
        return None
    given = _slice_bounds(ctx)
    if given is None:
        return _slice_by_data(ctx, shape)
    starts, ends, axes, steps = given
    axes = [axis % len(shape) for axis in axes]
    if 0 in steps:
        ctx.unsupported("a step of 0")
    begin: dict[int, Integer] = {}
    sizes = list(shape)
    stops: list[Integer] = []
    for axis, start, end, step in zip(axes, starts, ends, steps, strict=True):
        begin[axis] = _clamp(ctx, start, shape[axis], step)
        stop = _clamp(ctx, end, shape[axis], step)
        sizes[axis] = _count(ctx, begin[axis], stop, step)
        stops.append(stop)
    if all(step > 0 for step in steps) and all(
        ctx.symbols.proves(as_expr(stop) >= as_expr(begin[axis]))
        for axis, stop in zip(axes, stops, strict=True)
    ):
        return strided_slice(ctx, ctx.input(0), axes, [begin[a] for a in axes], stops, steps)
    jumps = dict(zip(axes, steps, strict=True))
    offsets = [as_expr(begin.get(axis, 0)) for axis in range(len(shape))]
    strides = [jumps.get(axis, 1) for axis in range(len(shape))]
    return ctx.call_te(_picked, ctx.input(0), [as_expr(s) for s in sizes], offsets, strides)


def _slice_by_data(ctx: Context, shape: Sequence[Integer]) -> relax.Expr:
    """Slice where even the axes, or the steps, depend on data."""
    rank = len(shape)
    operands = [ctx.input(index) for index in range(1, 5)]
    found = ctx.emit(
        relax.op.call_pure_packed(
            "moonpoly.op.slice_bounds",
            relax.ShapeExpr([as_expr(dim) for dim in shape]),
            *(relax.prim_value(0) if operand is None else operand for operand in operands),
            ty_args=relax.ShapeType(ndim=3 * rank),
        )
    )
    sizes = [ctx.new_dim("slice_dim") for _ in range(rank)]
    offsets, strides = ([ctx.new_symbol(name) for _ in range(rank)] for name in ("first", "step"))
    ctx.bb.match_cast(found, relax.ShapeType([*offsets, *strides, *sizes]))
    return ctx.call_te(_picked, ctx.input(0), sizes, offsets, strides)


def strided_slice(
    ctx: Context,
    data: relax.Expr | None,
    axes: Sequence[int],
    starts: Sequence[Integer],
    stops: Sequence[Integer],
    steps: Sequence[int],
) -> relax.Expr:
    """Take ranges that lie within ``data`` and run forward."""
    lists = [
        relax.Tuple([relax.prim_value(as_expr(item)) for item in items])
        for items in (starts, stops, steps)
    ]
    return relax.op.strided_slice(data, list(axes), *lists, assume_inbound=True)


def _picked(data: te.Tensor, sizes: Any, offsets: Any, strides: Sequence[Any]) -> te.Tensor:
    def read(*position: tirx.Var) -> tvm.ir.Expr:
        return data(*(o + i * s for o, i, s in zip(offsets, position, strides, strict=True)))

    return te.compute(list(sizes), read, name="slice")


def _slice_bounds(
    ctx: Context,
) -> tuple[list[Integer], list[Integer], list[int], list[int]] | None:
    """Return starts, ends, axes and steps, or None where one depends on data."""
    if ctx.opset < 10:
        starts, ends = ctx.attrs["starts"], ctx.attrs["ends"]
        return starts, ends, ctx.attrs.get("axes", list(range(len(starts)))), [1] * len(starts)
    first, last = ctx.read_integers(1), ctx.read_integers(2)
    axes, steps = ctx.constant(3), ctx.constant(4)
    if first is None or last is None:
        return None
    if (ctx.has_input(3) and axes is None) or (ctx.has_input(4) and steps is None):
        return None
    count = len(first)
    return (
        list(first),
        list(last),
        list(range(count)) if axes is None else [int(axis) for axis in axes],
        [1] * count if steps is None else [int(step) for step in steps],
    )


# The largest 32-bit integer and all above stand for "to the end". Taken as a number, it would
# become the bound of a size that is not known to be smaller, and memory be planned by it.
_TO_THE_END = 2**31 - 1


def _clamp(ctx: Context, bound: Integer, size: Integer, step: int) -> Integer:
    """Return a bound of a slice as a position from the front, as NumPy understands it."""
    symbols = ctx.symbols
    if isinstance(bound, int) and bound >= _TO_THE_END:
        return size if step > 0 else symbols.subtract(size, 1)
    from_end = symbols.compare(lambda a, b: a < b, bound, 0)
    position = symbols.select(from_end, symbols.add(bound, size), bound)
    low, high = (0, size) if step > 0 else (-1, symbols.subtract(size, 1))
    return symbols.maximum(symbols.minimum(position, high), low)


def _count(ctx: Context, begin: Integer, stop: Integer, step: int) -> Integer:
    """Return how many positions lie from ``begin`` to before ``stop``."""
    symbols = ctx.symbols
    span = symbols.subtract(stop, begin) if step > 0 else symbols.subtract(begin, stop)
    span = symbols.maximum(span, 0)
    return symbols.divide(symbols.add(span, abs(step) - 1), abs(step))


@converts("Split")
def _split(ctx: Context) -> list[relax.Expr | None] | None:
    shape = ctx.shape(0)
    if shape is None:
        return None
    axis = ctx.attrs.get("axis", 0) % len(shape)
    sizes: list[Integer]
    if ctx.has_input(1) or "split" in ctx.attrs:
        given = ctx.read_integers(1) if ctx.has_input(1) else ctx.attrs["split"]
        if given is None:
            return None
        sizes = list(given)
    else:
        count = ctx.attrs.get("num_outputs", ctx.num_outputs)
        part = ctx.symbols.divide(ctx.symbols.add(shape[axis], count - 1), count)
        last = ctx.symbols.subtract(shape[axis], ctx.symbols.multiply(part, count - 1))
        sizes = [part] * (count - 1) + [last]
    parts: list[relax.Expr | None] = []
    start: Integer = 0
    for size in sizes:
        stop = ctx.symbols.add(start, size)
        parts.append(strided_slice(ctx, ctx.input(0), [axis], [start], [stop], [1]))
        start = stop
    ctx.require_equal(start, shape[axis])
    return parts


@converts("Pad")
def _pad(ctx: Context) -> relax.Expr | None:
    """Pad by as many as are known in symbols; else read them at run time."""
    mode = ctx.attrs.get("mode", "constant")
    if mode not in ("constant", "edge", "reflect", "wrap"):
        ctx.unsupported(f"the standard has no mode {mode!r}")
    shape, pads = ctx.shape(0), ctx.integers(1)
    if ctx.opset < 11 or shape is None:
        return None
    axes = list(range(len(shape)))
    given = ctx.constant(3) if ctx.has_input(3) else None
    if given is not None:
        axes = [int(axis) % len(shape) for axis in given]
    value: Any = ctx.constant(2) if ctx.has_input(2) else np.zeros((), ctx.dtype(0))
    unknown = value is None or (ctx.has_input(3) and given is None)
    if pads is None or unknown:
        return _pad_at_run_time(ctx, len(shape))
    before: list[Integer] = [0] * len(shape)
    sizes = list(shape)
    for axis, low, high in zip(axes, pads[: len(axes)], pads[len(axes) :], strict=True):
        before[axis] = low
        sizes[axis] = ctx.symbols.add(ctx.symbols.add(shape[axis], low), high)
    if mode == "wrap" and any(isinstance(pad, int) and pad < 0 for pad in pads):
        ctx.unsupported("it takes off and wraps at once; slice first")
    if mode != "constant":
        exprs = [[as_expr(item) for item in items] for items in (sizes, before)]
        return ctx.call_te(bounds.pad_from_itself, ctx.input(0), *exprs, mode)
    return padded(ctx, ctx.input(0), sizes, before, value.item())


def _pad_at_run_time(ctx: Context, rank: int) -> relax.Expr | None:
    """Pad in any mode, by numbers that may be known at run time only."""
    count = known_shape(ctx, 3)[0] if ctx.has_input(3) else rank
    if not isinstance(count, int):
        return None
    if rank == 0:
        return ctx.input(0)
    data, dtype = ctx.input(0), ctx.dtype(0)
    axes = ctx.input(3) if ctx.has_input(3) else relax.const(np.arange(rank), "int64")
    table = ctx.call_te(bounds.pad_bounds, data, ctx.input(1), axes)
    sizes = read_dims(ctx, ctx.call_te(bounds.row, table, 1), rank, "padded")
    value = ctx.input(2) if ctx.has_input(2) else relax.const(0, dtype)
    value = ctx.emit(relax.op.reshape(value, ()))
    mode = ctx.attrs.get("mode", "constant")
    return ctx.call_te(bounds.pad, data, table, value, sizes, mode)


def padded(
    ctx: Context,
    data: relax.Expr | None,
    sizes: Sequence[Integer],
    before: Sequence[Integer],
    value: Any,
) -> relax.Expr:
    """Return a tensor of ``sizes`` that holds ``data`` from ``before`` on, and else ``value``."""
    assert data is not None, "the checker wants a first input"
    fill = tirx.const(value, ctx.dtype(data))
    exprs = [[as_expr(item) for item in items] for items in (sizes, before)]
    return ctx.call_te(_surrounded, data, *exprs, fill)


def _surrounded(data: te.Tensor, sizes: Any, before: Any, fill: tvm.ir.Expr) -> te.Tensor:
    def read(*position: tirx.Var) -> tvm.ir.Expr:
        own = [
            i if isinstance(low, tirx.IntImm) and low.value == 0 else i - low
            for i, low in zip(position, before, strict=True)
        ]
        inside: list[tvm.ir.Expr] = []
        for i, at, dim, size in zip(position, own, data.shape, sizes, strict=True):
            if at is i and tvm_ffi.structural_equal(dim, size):
                continue
            inside += [at >= 0, at < dim]
        if not inside:
            return data(*own)
        return tirx.if_then_else(tirx.all(*inside), data(*own), fill)

    return te.compute(list(sizes), read, name="pad")
