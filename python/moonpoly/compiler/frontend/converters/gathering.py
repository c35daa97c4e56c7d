"""Operators that read where indices say: TVM's, with indices that are checked."""

from __future__ import annotations

from tvm import relax

from moonpoly.compiler.frontend.converters.indices import checked_indices
from moonpoly.compiler.frontend.converters.registry import converts
from moonpoly.compiler.frontend.converters.sizes import known_shape, normal_axis
from moonpoly.compiler.frontend.graph.context import Context


@converts("Gather")
def gather(ctx: Context) -> relax.Expr:
    """Each index is a position along one axis."""
    data = known_shape(ctx, 0)
    axis = normal_axis(ctx, ctx.attrs.get("axis", 0), len(data))
    return relax.op.take(ctx.input(0), checked_indices(ctx, 1, data[axis : axis + 1]), axis)


@converts("GatherElements")
def gather_elements(ctx: Context) -> relax.Expr:
    """Each index is a position along one axis; along the others an index stands at its own."""
    data, places = known_shape(ctx, 0), known_shape(ctx, 1)
    axis = normal_axis(ctx, ctx.attrs.get("axis", 0), len(data))
    if len(places) != len(data):
        ctx.unsupported(f"indices of rank {len(places)} into a tensor of rank {len(data)}")
    for other, (have, need) in enumerate(zip(data, places, strict=True)):
        if other != axis:
            ctx.require_equal(need, ctx.symbols.minimum(need, have))
    indices = checked_indices(ctx, 1, data[axis : axis + 1])
    return relax.op.gather_elements(ctx.input(0), indices, axis)


@converts("GatherND")
def gather_nd(ctx: Context) -> relax.Expr:
    """Each row of the last axis is a position along the axes that follow those of the batch."""
    data, places = known_shape(ctx, 0), known_shape(ctx, 1)
    batch = ctx.attrs.get("batch_dims", 0)
    count = places[-1] if places else 0
    if not isinstance(count, int) or not 1 <= count <= len(data) - batch or batch >= len(places):
        ctx.unsupported(
            f"indices of shape {places} into a tensor of rank {len(data)} with {batch} batch_dims"
        )
    for have, need in zip(data[:batch], places[:batch], strict=True):
        ctx.require_equal(have, need)
    indices = checked_indices(ctx, 1, data[batch : batch + count])
    return relax.op.gather_nd(ctx.input(0), indices, batch)
