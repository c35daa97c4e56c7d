"""FusedMatMul: a product with transpositions and a factor."""

from __future__ import annotations

from tvm import relax

from moonpoly.compiler.frontend.converters.registry import converts
from moonpoly.compiler.frontend.graph.context import Context


@converts("FusedMatMul", "TransposeMatMul", domain="com.microsoft")
def _fused_matmul(ctx: Context) -> relax.Expr:
    left = _arrange(ctx, 0, ctx.attrs.get("transA", 0), ctx.attrs.get("transBatchA", 0))
    right = _arrange(ctx, 1, ctx.attrs.get("transB", 0), ctx.attrs.get("transBatchB", 0))
    product = ctx.emit(relax.op.matmul(left, right))
    alpha = ctx.attrs.get("alpha", 1.0)
    if alpha == 1.0:
        return product
    return relax.op.multiply(product, relax.const(alpha, ctx.dtype(product)))


def _arrange(ctx: Context, index: int, transpose: int, transpose_batch: int) -> relax.Expr:
    """Return an operand with its axes in the order that the product takes.

    ``transpose_batch`` means that the first of the two matrix dimensions stands first of all.
    """
    operand = ctx.input(index)
    assert operand is not None, "the checker wants two operands"
    rank = ctx.rank(operand)
    if rank is None:
        ctx.unsupported("the rank of an operand depends on data")
    axes = list(range(rank))
    if rank < 2:
        return operand
    if transpose_batch and rank > 2:
        axes = [*axes[1:-1], 0, axes[-1]]
    if transpose:
        axes[-2:] = [axes[-1], axes[-2]]
    if axes == list(range(rank)):
        return operand
    return ctx.emit(relax.op.permute_dims(operand, axes))
