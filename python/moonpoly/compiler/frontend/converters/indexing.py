"""Operators that make, find or gather positions."""

from __future__ import annotations

import tvm
from tvm import relax, te

from moonpoly.compiler.frontend.context import Context
from moonpoly.compiler.frontend.converters.registry import converts
from moonpoly.compiler.frontend.symbolic.elements import as_expr
from moonpoly.compiler.frontend.values import Integer, is_symbolic


@converts("Range")
def _range(ctx: Context) -> relax.Expr | None:
    """Give a range whose ends are known in symbols the length that is known of it."""
    bounds = [ctx.read_integers(index) for index in range(3)]
    if any(bound is None or bound.size != 1 for bound in bounds):
        return None
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
