"""Strides, dilations and pads of a convolution, and the size of what it makes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tvm import relax, tirx

from moonpoly.compiler.frontend.context import Context
from moonpoly.compiler.frontend.converters.operand_shapes import sizes
from moonpoly.compiler.frontend.values import Integer


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
            covered = (_ceil_div(extent, strides[d]) - 1) * strides[d]
            total = _positive(covered + dilations[d] * (kernel[d] - 1) + 1 - extent)
            less, more = total // 2, total - total // 2
            before[d], after[d] = (less, more) if auto_pad == "SAME_UPPER" else (more, less)
    return WindowAttributes(
        int(ctx.attrs.get("group", 1)), strides, dilations, tuple(before), tuple(after)
    )


def conv_shape(
    ctx: Context, data: relax.Expr, weight: relax.Expr, attributes: WindowAttributes
) -> list[Integer]:
    """Return the shape (n, m, ...) of the convolution of ``data`` with ``weight``."""
    extents, kernel = sizes(ctx, data), sizes(ctx, weight)
    out = [extents[0], kernel[0]]
    for d, stride in enumerate(attributes.strides):
        padded = extents[2 + d] + attributes.pads_before[d] + attributes.pads_after[d]
        room = padded - attributes.dilations[d] * (kernel[2 + d] - 1) - 1
        out.append(room // stride + 1)
    return [ctx.symbols.simplify(dim) if not isinstance(dim, int) else dim for dim in out]


def _ceil_div(value: Integer, divisor: int) -> Integer:
    return (value + divisor - 1) // divisor


def _positive(value: Integer) -> Integer:
    return max(value, 0) if isinstance(value, int) else tirx.max(value, tirx.IntImm("int64", 0))
