"""Operators that are loops over data, one step after the other: written in C++ (``src/ops``)."""

from __future__ import annotations

from moonpoly.compiler.frontend.converters.packed_call import call_packed
from moonpoly.compiler.frontend.converters.registry import Converted, converts
from moonpoly.compiler.frontend.converters.sizes import known_shape
from moonpoly.compiler.frontend.graph.context import Context


@converts("ReverseSequence")
def reverse_sequence(ctx: Context) -> Converted:
    """Turn round the first steps of each batch element, as many as it says."""
    shape = known_shape(ctx, 0)
    batch_axis, time_axis = int(ctx.attrs.get("batch_axis", 1)), int(ctx.attrs.get("time_axis", 0))
    if sorted((batch_axis, time_axis)) != [0, 1] or len(shape) < 2:
        ctx.unsupported(
            f"batch axis {batch_axis} and time axis {time_axis} of a tensor of rank {len(shape)}; "
            f"they must be 0 and 1 in either order"
        )
    ctx.require_equal(shape[batch_axis], known_shape(ctx, 1)[0])
    args = [ctx.input(0), ctx.input(1), int(time_axis == 0)]
    return call_packed(ctx, "moonpoly.op.reverse_sequence", args, [shape], [ctx.dtype(0)])


@converts("Det")
def determinant(ctx: Context) -> Converted:
    """The determinants of square matrices."""
    shape, dtype = known_shape(ctx, 0), ctx.dtype(0)
    if len(shape) < 2:
        ctx.unsupported(f"its operand has rank {len(shape)}, expected 2 or more")
    ctx.require_equal(shape[-2], shape[-1])
    return call_packed(ctx, "moonpoly.op.det", [ctx.input(0)], [shape[:-2]], [dtype])
