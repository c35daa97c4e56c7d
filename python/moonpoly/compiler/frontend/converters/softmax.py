"""Softmax of floats of 16 bits, in the steps that the standard defines it by; Hardmax."""

from __future__ import annotations

import tvm
from tvm import relax, te, tirx

from moonpoly.compiler.frontend.converters.registry import converts
from moonpoly.compiler.frontend.graph.context import Context
from moonpoly.compiler.frontend.symbolic.elements import as_expr

# Before this opset all axes from one on are taken together.
_ONE_AXIS_OPSET = 13


@converts("Softmax")
def softmax(ctx: Context) -> relax.Expr | None:
    """Round each step to the operand's type; terms are added up in float32."""
    dtype = ctx.dtype(0)
    if dtype not in ("float16", "bfloat16") or ctx.opset < _ONE_AXIS_OPSET:
        return None
    data, axis = ctx.input(0), int(ctx.attrs.get("axis", -1))

    def rounded(expr: relax.Expr) -> relax.Expr:
        narrow = ctx.emit(relax.op.astype(ctx.emit(expr), dtype))
        return ctx.emit(relax.op.astype(narrow, "float32"))

    wide = ctx.emit(relax.op.astype(data, "float32"))
    largest = ctx.emit(relax.op.max(wide, axis, keepdims=True))
    powers = rounded(relax.op.exp(rounded(relax.op.subtract(wide, largest))))
    total = rounded(relax.op.sum(powers, axis, keepdims=True))
    return relax.op.astype(ctx.emit(relax.op.divide(powers, total)), dtype)


@converts("Hardmax")
def hardmax(ctx: Context) -> relax.Expr:
    """Return 1 at the first largest entry along the axis, and 0 elsewhere."""
    data, shape = ctx.input(0), ctx.shape(0)
    assert data is not None, "the checker wants an operand"
    if shape is None:
        ctx.unsupported("its operand's sizes depend on data")
    old = ctx.opset < _ONE_AXIS_OPSET
    axis = int(ctx.attrs.get("axis", 1 if old else -1))
    if not -len(shape) <= axis < len(shape):
        ctx.unsupported(f"axis {axis} is not one of a tensor of rank {len(shape)}")
    axis %= len(shape)
    if old:
        sides = [as_expr(ctx.symbols.product(part)) for part in (shape[:axis], shape[axis:])]
        data, axis = ctx.emit(relax.op.reshape(data, sides)), 1
    largest = ctx.emit(relax.op.argmax(data, axis, keepdims=True))
    marked = ctx.call_te(_mark, data, largest, axis)
    return relax.op.reshape(marked, [as_expr(dim) for dim in shape]) if old else marked


def _mark(data: te.Tensor, places: te.Tensor, axis: int) -> te.Tensor:
    def element(*at: tirx.Var) -> tvm.ir.Expr:
        place = places(*at[:axis], 0, *at[axis + 1 :])
        one, zero = (tirx.const(value, data.dtype) for value in (1, 0))
        return tirx.Select(tirx.EQ(place, at[axis].astype(places.dtype)), one, zero)

    return te.compute(data.shape, element, name="hardmax")
