"""Softmax of floats of 16 bits, in the steps that the standard defines it by."""

from __future__ import annotations

from tvm import relax

from moonpoly.compiler.frontend.context import Context
from moonpoly.compiler.frontend.converters.registry import converts

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
