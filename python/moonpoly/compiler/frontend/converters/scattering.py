"""Operators that write where indices say: TVM's, with indices that are checked."""

from __future__ import annotations

from collections.abc import Sequence

import tvm
from tvm import relax

from moonpoly.compiler.frontend.converters.packed_call import call_packed
from moonpoly.compiler.frontend.converters.registry import converts
from moonpoly.compiler.frontend.converters.sizes import known_shape, normal_axis
from moonpoly.compiler.frontend.graph.context import Context
from moonpoly.compiler.frontend.node.values import Integer
from moonpoly.compiler.frontend.symbolic.elements import as_expr


@converts("ScatterND")
def scatter_nd(ctx: Context) -> None:
    """Each row of the last axis is a position along the first axes of the data."""
    data, shape = known_shape(ctx, 0), known_shape(ctx, 1)
    if not shape or not isinstance(shape[-1], int) or not 1 <= shape[-1] <= len(data):
        ctx.unsupported(f"indices of shape {shape} into a tensor of rank {len(data)}")
    _check(ctx, data[: shape[-1]])


@converts("Scatter", "ScatterElements")
def scatter_elements(ctx: Context) -> relax.Expr | None:
    """Each index is a position along one axis."""
    data = known_shape(ctx, 0)
    axis = normal_axis(ctx, int(ctx.attrs.get("axis", 0)), len(data))
    _check(ctx, data[axis : axis + 1])
    if ctx.op == "Scatter":
        return relax.op.scatter_elements(*ctx.inputs, axis=axis)
    return None


def _check(ctx: Context, extents: Sequence[Integer]) -> None:
    """Let the indices be checked when the model runs: a wrong one would be written through."""
    shape = relax.ShapeExpr([as_expr(extent) for extent in extents])
    label = tvm.ir.StringImm(f"node {ctx.name!r}")
    (checked,) = call_packed(
        ctx,
        "moonpoly.op.checked_indices",
        [ctx.input(1), shape, label],
        [known_shape(ctx, 1)],
        ["int64"],
    )
    ctx.inputs[1] = checked
