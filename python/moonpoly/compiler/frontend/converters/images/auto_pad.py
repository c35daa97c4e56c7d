"""Explicit padding in place of ``auto_pad``, also of images whose size is symbolic."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from moonpoly.compiler.frontend.converters.images.windows import (
    check_window,
    leading_padding,
    same_padding,
    windows_begun,
)
from moonpoly.compiler.frontend.converters.slicing import padded
from moonpoly.compiler.frontend.node.values import is_symbolic

if TYPE_CHECKING:
    from moonpoly.compiler.frontend.graph.context import Context


def resolve_auto_pad(ctx: Context) -> None:
    """Replace a node's ``auto_pad`` by ``pads``; sizes that are symbolic are padded beforehand.

    A node without it, or one whose input's shape depends on data, is left alone.
    """
    mode = ctx.attrs.get("auto_pad", "NOTSET")
    shape = ctx.shape(0)
    if shape is not None:
        check_window(ctx, len(shape) - 2)
    if mode not in ("SAME_UPPER", "SAME_LOWER", "VALID") or shape is None:
        return
    rank = len(shape) - 2
    if mode == "VALID":
        ctx.replace_attributes(auto_pad=None, pads=[0] * (2 * rank))
        return
    kernel = ctx.attrs.get("kernel_shape")
    if kernel is None:
        weight = ctx.shape(1)
        if weight is None or any(map(is_symbolic, weight[2:])):
            return
        kernel = list(weight[2:])
    strides = ctx.attrs.get("strides", [1] * rank)
    dilations = ctx.attrs.get("dilations", [1] * rank)
    spans = [(k - 1) * d + 1 for k, d in zip(kernel, dilations, strict=True)]
    totals = [
        same_padding(ctx, dim, stride, span)
        for dim, stride, span in zip(shape[2:], strides, spans, strict=True)
    ]
    before = [leading_padding(ctx, total, mode == "SAME_UPPER") for total in totals]
    after = [ctx.symbols.subtract(t, b) for t, b in zip(totals, before, strict=True)]
    if not any(map(is_symbolic, [*before, *after])):
        ctx.replace_attributes(auto_pad=None, pads=[*before, *after])
        return
    if ctx.op == "AveragePool":
        ctx.unsupported(f"auto_pad {mode} at a size that is symbolic, of stride {strides}")
    # Just what the windows cover: the output's size then has a simple form.
    covered = [
        ctx.symbols.add(
            ctx.symbols.multiply(windows_begun(ctx, dim, stride), stride), span - stride
        )
        for dim, stride, span in zip(shape[2:], strides, spans, strict=True)
    ]
    lowest = -np.inf if ctx.op == "MaxPool" and "float" in ctx.dtype(0) else 0.0
    if ctx.op == "MaxPool" and "float" not in ctx.dtype(0):
        lowest = float(np.iinfo(ctx.dtype(0)).min)
    data = padded(ctx, ctx.input(0), [*shape[:2], *covered], [0, 0, *before], lowest)
    ctx.inputs = [data, *ctx.inputs[1:]]
    ctx.replace_attributes(auto_pad=None, pads=[0] * (2 * rank), kernel_shape=list(kernel))


def resolve_pool(ctx: Context) -> None:
    """Replace a pool's ``auto_pad`` and ``ceil_mode`` by ``pads``.

    A window that begins within the image and ends beyond it counts in ``ceil_mode``. Further
    padding at the end makes room for it, and the number of windows is a plain quotient.
    """
    resolve_auto_pad(ctx)
    kernel = ctx.attrs.get("kernel_shape")
    shape = ctx.shape(0)
    if not ctx.attrs.get("ceil_mode", 0) or kernel is None or shape is None:
        return
    if ctx.op != "MaxPool" and ctx.attrs.get("count_include_pad", 0):
        return
    if not any(map(is_symbolic, shape[2:])):
        return
    rank = len(kernel)
    pads = ctx.attrs.get("pads", [0] * (2 * rank))
    strides = ctx.attrs.get("strides", [1] * rank)
    dilations = ctx.attrs.get("dilations", [1] * rank)
    spans = [(k - 1) * d + 1 for k, d in zip(kernel, dilations, strict=True)]
    after = pads[rank:]
    # Otherwise a window could begin in the padding, and that one doesn't count.
    if all(pad <= span - step for pad, span, step in zip(after, spans, strides, strict=True)):
        after = [pad + step - 1 for pad, step in zip(after, strides, strict=True)]
        ctx.replace_attributes(ceil_mode=None, pads=[*pads[:rank], *after])
