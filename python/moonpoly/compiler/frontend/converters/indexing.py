"""Operators that make, find or gather positions."""

from __future__ import annotations

import tvm
from tvm import relax, te

from moonpoly.compiler.frontend.converters.registry import converts
from moonpoly.compiler.frontend.converters.sizes import known_shape, normal_axis, read_dims
from moonpoly.compiler.frontend.graph.context import Context
from moonpoly.compiler.frontend.node.values import Integer, is_symbolic
from moonpoly.compiler.frontend.symbolic.elements import as_expr
from moonpoly.compiler.ops import bounds as run_time


@converts("Range")
def _range(ctx: Context) -> relax.Expr | None:
    """Give a range whose ends are known in symbols the length that is known of it."""
    bounds = [ctx.read_integers(index) for index in range(3)]
    if any(bound is None or bound.size != 1 for bound in bounds):
        return _range_by_data(ctx)
    first, last, step = (bound.reshape(())[()] for bound in bounds if bound is not None)
    if is_symbolic(step) or step == 0:
        given = relax.ShapeExpr([as_expr(bound) for bound in (first, last, step)])
        ty = relax.ShapeType(ndim=1)
        found = ctx.emit(relax.op.call_pure_packed("moonpoly.op.range_length", given, ty_args=ty))
        count: Integer = ctx.new_dim("range_dim")
        ctx.bb.match_cast(found, relax.ShapeType([count]))
    else:
        span = ctx.symbols.subtract(last, first) if step > 0 else ctx.symbols.subtract(first, last)
        whole = ctx.symbols.maximum(ctx.symbols.add(span, abs(step) - 1), 0)
        count = ctx.symbols.divide(whole, abs(step))
    return ctx.call_te(_counted, as_expr(count), as_expr(first), as_expr(step), ctx.dtype(0))


def _counted(count: tvm.ir.Expr, first: tvm.ir.Expr, step: tvm.ir.Expr, dtype: str) -> te.Tensor:
    return te.compute((count,), lambda i: (first + i * step).astype(dtype), name="range")


def _range_by_data(ctx: Context) -> relax.Expr:
    """Make a range of real numbers, or of integers that are not known one by one."""
    start, limit, delta = (ctx.emit(relax.op.reshape(ctx.input(i), ())) for i in range(3))
    count = ctx.call_te(run_time.range_size, start, limit, delta)
    return ctx.call_te(run_time.numbers, start, delta, read_dims(ctx, count, 1, "range"))


@converts("OneHot")
def _one_hot(ctx: Context) -> relax.Expr:
    """Compare with every position; how many there are may be known at run time only."""
    depth = ctx.read_integers(1) if "int" in ctx.dtype(1) else None
    if depth is None:
        given = ctx.emit(relax.op.astype(ctx.input(1), "int64"))
        sizes = read_dims(ctx, ctx.emit(relax.op.reshape(given, (1,))), 1, "depth")
    else:
        sizes = [as_expr(size) for size in depth.reshape(-1)]
    axis = normal_axis(ctx, ctx.attrs.get("axis", -1), len(known_shape(ctx, 0)) + 1)
    return ctx.call_te(run_time.one_hot, ctx.input(0), ctx.input(2), sizes, axis)
