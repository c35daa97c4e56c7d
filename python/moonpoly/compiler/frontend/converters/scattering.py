"""Operators that write where indices say: TVM's, with indices that are checked."""

from __future__ import annotations

from tvm import relax

from moonpoly.compiler.frontend.converters.indices import checked_indices
from moonpoly.compiler.frontend.converters.registry import converts
from moonpoly.compiler.frontend.converters.sizes import known_shape, normal_axis
from moonpoly.compiler.frontend.graph.context import Context


@converts("ScatterND")
def scatter_nd(ctx: Context) -> None:
    """Each row of the last axis is a position along the first axes of the data."""
    data, shape = known_shape(ctx, 0), known_shape(ctx, 1)
    if not shape or not isinstance(shape[-1], int) or not 1 <= shape[-1] <= len(data):
        ctx.unsupported(f"indices of shape {shape} into a tensor of rank {len(data)}")
    ctx.inputs[1] = checked_indices(ctx, 1, data[: shape[-1]])


@converts("Scatter", "ScatterElements")
def scatter_elements(ctx: Context) -> relax.Expr | None:
    """Each index is a position along one axis."""
    data = known_shape(ctx, 0)
    axis = normal_axis(ctx, int(ctx.attrs.get("axis", 0)), len(data))
    ctx.inputs[1] = checked_indices(ctx, 1, data[axis : axis + 1])
    if ctx.op == "Scatter":
        return relax.op.scatter_elements(*ctx.inputs, axis=axis)
    return None
