"""Strides, dilations and pads of a convolution, and the size of what it makes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tvm import relax

from moonpoly.compiler.frontend.converters.operand_shapes import sizes
from moonpoly.compiler.frontend.graph.context import Context
from moonpoly.compiler.frontend.node.values import Integer, is_symbolic


@dataclass(frozen=True)
class WindowAttributes:
    """How a window moves, with a number for each spatial dimension.

    Parameters
    ----------
    groups
        Into how many the channels are cut.
    strides, dilations, pads_before, pads_after
        One for each spatial dimension; pads may depend on symbolic sizes.
    """

    groups: int
    strides: tuple[int, ...]
    dilations: tuple[int, ...]
    pads_before: tuple[Integer, ...]
    pads_after: tuple[Integer, ...]

    def flat(self) -> list[Integer]:
        """Return groups, strides, dilations, pads before and pads after, one after the other."""
        return [
            self.groups,
            *self.strides,
            *self.dilations,
            *self.pads_before,
            *self.pads_after,
        ]


def conv_attributes(ctx: Context, data: relax.Expr, weight: relax.Expr) -> WindowAttributes:
    """Return the node's attributes with defaults filled in and ``auto_pad`` made explicit.

    Parameters
    ----------
    data, weight
        (n, c, ...) and (m, c / groups, ...).
    """
    return window_attributes(ctx, sizes(ctx, data)[2:], sizes(ctx, weight)[2:])


def check_window(ctx: Context, rank: int) -> None:
    """Refuse a window whose attributes are not for ``rank`` spatial axes, or are no sizes."""
    for name, due, least in (
        ("kernel_shape", rank, 1),
        ("strides", rank, 1),
        ("dilations", rank, 1),
        ("pads", 2 * rank, None),
    ):
        given = ctx.attrs.get(name)
        if given is None:
            continue
        if not isinstance(given, list) or not all(isinstance(each, int) for each in given):
            ctx.unsupported(f"its {name} are {given}, expected integers")
        if len(given) != due:
            ctx.unsupported(f"it has {len(given)} {name}, expected {due}: {rank} spatial axes")
        if least is not None and any(each < least for each in given):
            ctx.unsupported(f"its {name} are {given}, expected {least} or more")


def window_attributes(
    ctx: Context, extents: Sequence[Integer], kernel: Sequence[Integer]
) -> WindowAttributes:
    """Return the same for windows of ``kernel`` over spatial ``extents``."""
    ones = [1] * len(extents)
    strides = tuple(ctx.attrs.get("strides", ones))
    dilations = tuple(ctx.attrs.get("dilations", ones))
    pads = ctx.attrs.get("pads", [0] * (2 * len(extents)))
    auto_pad = ctx.attrs.get("auto_pad", "NOTSET")
    check_window(ctx, len(extents))
    if len(kernel) != len(extents):
        ctx.unsupported(f"a window over {len(kernel)} axes of an input with {len(extents)}")
    before: list[Integer] = list(pads[: len(extents)])
    after: list[Integer] = list(pads[len(extents) :])
    if auto_pad == "VALID":
        before = after = [0] * len(extents)
    elif auto_pad in ("SAME_UPPER", "SAME_LOWER"):
        for d, extent in enumerate(extents):
            total = same_padding(ctx, extent, strides[d], span_of(ctx, kernel[d], dilations[d]))
            before[d] = leading_padding(ctx, total, auto_pad == "SAME_UPPER")
            after[d] = ctx.symbols.subtract(total, before[d])
    return WindowAttributes(
        int(ctx.attrs.get("group", 1)), strides, dilations, tuple(before), tuple(after)
    )


def conv_shape(
    ctx: Context, data: relax.Expr, weight: relax.Expr, attributes: WindowAttributes
) -> list[Integer]:
    """Return the shape (n, m, ...) of the convolution of ``data`` with ``weight``."""
    extents, kernel = sizes(ctx, data), sizes(ctx, weight)
    return [extents[0], kernel[0], *window_counts(ctx, extents[2:], kernel[2:], attributes)]


def window_counts(
    ctx: Context,
    extents: Sequence[Integer],
    kernel: Sequence[Integer],
    attributes: WindowAttributes,
) -> list[Integer]:
    """Return how many windows fit along each spatial axis."""
    rooms = window_rooms(ctx, extents, kernel, attributes)
    return [
        ctx.symbols.add(ctx.symbols.divide(room, stride), 1)
        for room, stride in zip(rooms, attributes.strides, strict=True)
    ]


def window_rooms(
    ctx: Context,
    extents: Sequence[Integer],
    kernel: Sequence[Integer],
    attributes: WindowAttributes,
) -> list[Integer]:
    """Return how far the first window can be moved along each spatial axis."""
    rooms = []
    for d, extent in enumerate(extents):
        padding = ctx.symbols.add(attributes.pads_before[d], attributes.pads_after[d])
        span = span_of(ctx, kernel[d], attributes.dilations[d])
        rooms.append(ctx.symbols.subtract(ctx.symbols.add(extent, padding), span))
    return rooms


def span_of(ctx: Context, kernel: Integer, dilation: int) -> Integer:
    """Return how far a window reaches, from its first element to behind its last."""
    return ctx.symbols.add(ctx.symbols.multiply(ctx.symbols.subtract(kernel, 1), dilation), 1)


def windows_begun(ctx: Context, extent: Integer, stride: int) -> Integer:
    """Return how many windows begin within an axis."""
    if not is_symbolic(extent):
        return -(-int(extent) // stride)
    return ctx.symbols.simplify((extent - 1) // stride + 1) if stride > 1 else extent


def same_padding(ctx: Context, extent: Integer, stride: int, span: Integer) -> Integer:
    """Return by how much the windows that begin within an axis reach beyond it."""
    last = ctx.symbols.subtract(windows_begun(ctx, extent, stride), 1)
    reach = ctx.symbols.add(ctx.symbols.multiply(last, stride), span)
    return ctx.symbols.maximum(ctx.symbols.subtract(reach, extent), 0)


def leading_padding(ctx: Context, total: Integer, is_upper: bool) -> Integer:
    """Return the part of a padding that is at the beginning."""
    half = ctx.symbols.divide(total, 2)
    return half if is_upper else ctx.symbols.subtract(total, half)
