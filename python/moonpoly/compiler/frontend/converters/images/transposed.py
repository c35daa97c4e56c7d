"""Transposed convolutions, and blocks that are added up to an image."""

from __future__ import annotations

from collections.abc import Sequence

from tvm import relax

from moonpoly.compiler.frontend.converters.images.windows import (
    leading_padding,
    span_of,
    window_attributes,
    window_counts,
)
from moonpoly.compiler.frontend.converters.registry import converts
from moonpoly.compiler.frontend.converters.sizes import known_shape
from moonpoly.compiler.frontend.graph.context import Context
from moonpoly.compiler.frontend.node.values import Integer, is_symbolic
from moonpoly.compiler.frontend.symbolic.elements import as_expr
from moonpoly.compiler.ops import windows

_IMAGE_RANK = 4


@converts("ConvTranspose")
def conv_transpose(ctx: Context) -> relax.Expr | None:
    """Convolve over three axes, by a symbolic kernel or to a size that is asked for.

    TVM has the other forms.
    """
    shape, weight = known_shape(ctx, 0), known_shape(ctx, 1)
    ctx.require_equal(shape[1], weight[0])
    extents, kernel, rank = shape[2:], weight[2:], len(shape) - 2
    wanted, groups = ctx.attrs.get("output_shape"), int(ctx.attrs.get("group", 1))
    grouped = groups > 1 and any(map(is_symbolic, weight[:2]))
    general = wanted or grouped or any(map(is_symbolic, kernel))
    if len(shape) <= _IMAGE_RANK and not general:
        return None
    members = ctx.symbols.divide(weight[0], groups)
    ctx.require_equal(weight[0], ctx.symbols.multiply(members, groups))
    # Its automatic padding is another than a convolution's.
    auto_pad = ctx.attrs.get("auto_pad", "NOTSET")
    ctx.replace_attributes(auto_pad=None)
    attributes = window_attributes(ctx, extents, kernel)
    extra = ctx.attrs.get("output_padding", [0] * rank)
    full = [
        ctx.symbols.add(
            ctx.symbols.multiply(ctx.symbols.subtract(extent, 1), stride),
            ctx.symbols.add(more, span_of(ctx, k, dilation)),
        )
        for extent, stride, more, k, dilation in zip(
            extents, attributes.strides, extra, kernel, attributes.dilations, strict=True
        )
    ]
    sizes, before = list(full), list(attributes.pads_before)
    if wanted or auto_pad in ("SAME_UPPER", "SAME_LOWER"):
        # Some write the batch and the channels as well.
        sizes = list(wanted[-rank:]) if wanted else _scaled(ctx, extents, attributes.strides)
        totals = [ctx.symbols.subtract(a, b) for a, b in zip(full, sizes, strict=True)]
        # A negative one is all at the end.
        before = [
            leading_padding(ctx, ctx.symbols.maximum(total, 0), auto_pad == "SAME_UPPER")
            for total in totals
        ]
        if not wanted:
            # Where the stride is longer than the kernel, ONNX Runtime adds nothing at the end.
            sizes = [
                ctx.symbols.subtract(size, ctx.symbols.maximum(total, 0))
                for size, total in zip(full, totals, strict=True)
            ]
    elif auto_pad == "NOTSET":
        pads = zip(attributes.pads_before, attributes.pads_after, strict=True)
        sizes = [
            ctx.symbols.subtract(size, ctx.symbols.add(*pair))
            for size, pair in zip(full, pads, strict=True)
        ]
    result = ctx.call_te(
        windows.conv_transpose,
        *(ctx.input(0), ctx.input(1), [as_expr(size) for size in sizes]),
        *(attributes.strides, attributes.dilations, [as_expr(pad) for pad in before]),
        attributes.groups,
    )
    if not ctx.has_input(2):
        return result
    bias = ctx.emit(relax.op.reshape(ctx.input(2), [1, -1, *[1] * rank]))
    return relax.op.add(result, bias)


def _scaled(ctx: Context, extents: Sequence[Integer], strides: Sequence[int]) -> list[Integer]:
    return [ctx.symbols.multiply(e, stride) for e, stride in zip(extents, strides, strict=True)]


@converts("Col2Im")
def col2im(ctx: Context) -> relax.Expr:
    """Add up blocks where they overlap; the sizes of both may be known at run time only."""
    shape, image, block = known_shape(ctx, 0), ctx.read_integers(1), ctx.read_integers(2)
    if len(shape) != 3 or image is None or block is None or len(image) != len(block):
        ctx.unsupported("expected an input of rank 3, and a block and an image of one known rank")
    kernel: list[Integer] = list(block)
    attributes = window_attributes(ctx, list(image), kernel)
    counts = window_counts(ctx, list(image), kernel, attributes)
    ctx.require_equal(shape[2], ctx.symbols.product(counts))
    elements = ctx.symbols.product(kernel)
    channels = ctx.symbols.divide(shape[1], elements)
    ctx.require_equal(shape[1], ctx.symbols.multiply(channels, elements))
    # A generated function knows symbols by the shapes of its operands only.
    one_block = ctx.emit(relax.op.zeros(relax.ShapeExpr([as_expr(k) for k in kernel]), "int8"))
    return ctx.call_te(
        windows.col2im,
        *(ctx.input(0), one_block, [as_expr(size) for size in image], as_expr(channels)),
        *([as_expr(count) for count in counts], attributes.strides, attributes.dilations),
        attributes.pads_before,
    )
