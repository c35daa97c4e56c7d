"""Maximum pooling that says where the maxima lie, and its reverse."""

from __future__ import annotations

from collections.abc import Sequence

from tvm import relax

from moonpoly.compiler.frontend.converters.images.windows import (
    WindowAttributes,
    window_attributes,
    window_counts,
    window_rooms,
)
from moonpoly.compiler.frontend.converters.packed_call import call_packed
from moonpoly.compiler.frontend.converters.registry import Converted, converts
from moonpoly.compiler.frontend.converters.sizes import known_shape
from moonpoly.compiler.frontend.graph.context import Context
from moonpoly.compiler.frontend.node.values import Integer
from moonpoly.compiler.frontend.symbolic.elements import as_expr
from moonpoly.compiler.ops import windows


@converts("MaxPool")
def max_pool(ctx: Context) -> Converted:
    """Return maxima and their positions; without positions it is TVM's pooling."""
    if not ctx.wants(1):
        return None
    shape, kernel = known_shape(ctx, 0), ctx.attrs["kernel_shape"]
    attributes = window_attributes(ctx, shape[2:], kernel)
    sizes = [*shape[:2], *_counts(ctx, shape[2:], kernel, attributes)]
    pads = [as_expr(pad) for pad in attributes.pads_before]
    column_major = bool(ctx.attrs.get("storage_order", 0))
    found = ctx.call_te(
        windows.max_pool,
        *(ctx.input(0), [as_expr(size) for size in sizes], kernel),
        *(attributes.strides, attributes.dilations, pads, column_major),
    )
    return [ctx.emit(relax.TupleGetItem(found, index)) for index in range(2)]


def _counts(
    ctx: Context, extents: Sequence[Integer], kernel: Sequence[int], attributes: WindowAttributes
) -> list[Integer]:
    """Return how many windows there are along each axis."""
    if not ctx.attrs.get("ceil_mode", 0):
        return window_counts(ctx, extents, kernel, attributes)
    symbols, counts = ctx.symbols, []
    for axis, room in enumerate(window_rooms(ctx, extents, kernel, attributes)):
        stride = attributes.strides[axis]
        count = symbols.add(symbols.divide(symbols.add(room, stride - 1), stride), 1)
        # A window that would begin in the padding at the end doesn't count.
        inside = symbols.add(extents[axis], attributes.pads_before[axis])
        begun = symbols.add(symbols.divide(symbols.subtract(inside, 1), stride), 1)
        counts.append(symbols.minimum(count, begun))
    return counts


@converts("MaxUnpool")
def max_unpool(ctx: Context) -> Converted:
    """Put maxima back where they were; a size that is asked for may be larger than needed."""
    shape, kernel = known_shape(ctx, 0), ctx.attrs["kernel_shape"]
    attributes = window_attributes(ctx, shape[2:], kernel)
    pooled: list[Integer] = [*shape[:2]]
    for axis, extent in enumerate(shape[2:]):
        padding = attributes.pads_before[axis] + attributes.pads_after[axis]
        last = ctx.symbols.multiply(ctx.symbols.subtract(extent, 1), attributes.strides[axis])
        pooled.append(ctx.symbols.add(last, kernel[axis] - padding))
    wanted = ctx.read_integers(2) if ctx.has_input(2) else pooled
    if wanted is None or len(wanted) != len(shape):
        ctx.unsupported(f"its output_shape must be {len(shape)} integers")
    shapes = [relax.ShapeExpr([as_expr(dim) for dim in dims]) for dims in (pooled, wanted)]
    args = [ctx.input(0), ctx.input(1), *shapes]
    return call_packed(ctx, "moonpoly.op.max_unpool", args, [list(wanted)], [ctx.dtype(0)])
