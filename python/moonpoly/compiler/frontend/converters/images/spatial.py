"""Operators on images: blocks of pixels, regions, and windows that are moved or deformed."""

from __future__ import annotations

import math
from functools import partial

from tvm import relax

from moonpoly.compiler.frontend.converters.images.windows import window_attributes, window_counts
from moonpoly.compiler.frontend.converters.packed_call import call_packed
from moonpoly.compiler.frontend.converters.registry import Converted, converts
from moonpoly.compiler.frontend.converters.sizes import known_shape
from moonpoly.compiler.frontend.graph.context import Context
from moonpoly.compiler.frontend.node.values import is_symbolic
from moonpoly.compiler.frontend.symbolic.elements import as_expr
from moonpoly.compiler.ops import sampling

# From this opset on RoiAlign takes pixels for squares around their coordinates.
_HALF_PIXEL_OPSET = 16


@converts("SpaceToDepth")
def space_to_depth(ctx: Context) -> relax.Expr | None:
    """Move blocks of pixels into channels; within a channel's block where the mode is CRD."""
    if ctx.attrs.get("mode", "DCR") == "DCR":
        return None
    data = ctx.input(0)
    shape = ctx.shape(data) if data is not None else None
    if data is None or shape is None:
        ctx.unsupported("the sizes of its input are not known")
    batch, channels, height, width = shape
    block = int(ctx.attrs["blocksize"])
    rows, columns = height // block, width // block
    blocks = ctx.emit(relax.op.reshape(data, (batch, channels, rows, block, columns, block)))
    moved = ctx.emit(relax.op.permute_dims(blocks, [0, 1, 3, 5, 2, 4]))
    return relax.op.reshape(moved, (batch, channels * block * block, rows, columns))


@converts("RoiAlign")
def roi_align(ctx: Context) -> Converted:
    """Pool regions of images; how many samples each takes depends on its size."""
    mode, dtype = ctx.attrs.get("mode", "avg"), ctx.dtype(0)
    if mode not in ("avg", "max"):
        ctx.unsupported(f"it has the mode {mode!r}; 'avg' and 'max' are supported")
    if dtype != "float32":
        ctx.unsupported(f"it is of {dtype}; float32 and narrower types are supported")
    default = "half_pixel" if ctx.opset >= _HALF_PIXEL_OPSET else "output_half_pixel"
    half_pixel = ctx.attrs.get("coordinate_transformation_mode", default) == "half_pixel"
    shape, count = known_shape(ctx, 0), known_shape(ctx, 1)[0]
    size = [int(ctx.attrs.get(name, 1)) for name in ("output_height", "output_width")]
    images = ctx.emit(relax.op.astype(ctx.input(2), "int64"))
    args = [
        *(ctx.input(0), ctx.input(1), images, *size, int(ctx.attrs.get("sampling_ratio", 0))),
        *(float(ctx.attrs.get("spatial_scale", 1.0)), int(mode == "max"), int(half_pixel)),
    ]
    wanted = [count, shape[1], *size]
    return call_packed(ctx, "moonpoly.op.roi_align", args, [wanted], ["float32"])


@converts("AffineGrid")
def affine_grid(ctx: Context) -> relax.Expr:
    """Map the points of an image, whose size may be known at run time only."""
    theta, size = known_shape(ctx, 0), ctx.read_integers(1)
    if size is None or len(size) not in (4, 5):
        ctx.unsupported("its size must be 4 or 5 integers")
    rank = len(size) - 2
    if len(theta) != 3:
        ctx.unsupported(f"theta has rank {len(theta)}, expected 3")
    for have, want in zip(theta, (size[0], rank, rank + 1), strict=True):
        ctx.require_equal(have, want)
    extents = [as_expr(extent) for extent in size[2:]]
    align_corners = bool(ctx.attrs.get("align_corners", 0))
    return ctx.call_te(sampling.affine_grid, ctx.input(0), extents, align_corners)


@converts("DeformConv")
def deform_conv(ctx: Context) -> relax.Expr:
    """Convolve with deformed windows: read them, then multiply matrices."""
    data, weight, offset = (known_shape(ctx, index) for index in range(3))
    kernel = weight[2:]
    if any(map(is_symbolic, [*weight, data[1]])):
        ctx.unsupported("the channels and the sizes of its weight must be constant")
    attributes = window_attributes(ctx, data[2:], kernel)
    offset_groups, groups = int(ctx.attrs.get("offset_group", 1)), attributes.groups
    rank, elements = len(kernel), math.prod(kernel)
    ctx.require_equal(data[1], weight[1] * groups)
    ctx.require_equal(offset[1], offset_groups * elements * rank)
    counts = window_counts(ctx, data[2:], kernel, attributes)
    for have, count in zip(offset[2:], counts, strict=True):
        ctx.require_equal(have, count)
    operands = [ctx.input(0), ctx.input(2), *([ctx.input(4)] if ctx.has_input(4) else [])]
    read = partial(
        sampling.deformed_columns,
        kernel=kernel,
        strides=attributes.strides,
        dilations=attributes.dilations,
        pads=attributes.pads_before,
        groups=offset_groups,
    )
    columns = ctx.call_te(read, *operands, primfunc_name_hint="deformed_columns")
    points = ctx.symbols.product(offset[2:])
    inner = weight[1] * elements
    left = ctx.emit(relax.op.reshape(ctx.input(1), (groups, weight[0] // groups, inner)))
    right = ctx.emit(relax.op.reshape(columns, (data[0], groups, inner, points)))
    product = ctx.emit(relax.op.matmul(left, right))
    result = ctx.emit(relax.op.reshape(product, (data[0], weight[0], *offset[2:])))
    if not ctx.has_input(3):
        return result
    bias = ctx.emit(relax.op.reshape(ctx.input(3), (1, weight[0], *[1] * rank)))
    return relax.op.add(result, bias)
