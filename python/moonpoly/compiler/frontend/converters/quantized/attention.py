"""QAttention: the projections are products of integers, what follows is float."""

from __future__ import annotations

from tvm import relax

from moonpoly.compiler.frontend.converters.attention.contrib import attend_projected
from moonpoly.compiler.frontend.converters.quantized.integer_products import (
    matmul,
    result_scale,
    to_float,
)
from moonpoly.compiler.frontend.converters.registry import converts
from moonpoly.compiler.frontend.graph.context import Context


@converts("QAttention", domain="com.microsoft")
def _qattention(ctx: Context) -> list[relax.Expr | None]:
    product = matmul(ctx, 0, 1, ctx.input(6), ctx.input(7))
    projected = to_float(ctx, product, result_scale(ctx, 3, 4, None), ctx.input(2))
    return attend_projected(ctx, projected, ctx.input(5), ctx.input(8), None)
