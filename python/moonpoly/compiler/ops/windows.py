"""Sliding windows in the forms that Relax has no operator for."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tvm import te, tirx

from moonpoly.compiler.ops.bounds import int64
from moonpoly.compiler.ops.reduction import identity


def _kernel_axes(kernel: Sequence[Any]) -> list[tirx.IterVar]:
    return [te.reduce_axis((0, extent), name=f"k{axis}") for axis, extent in enumerate(kernel)]


def _flat(index: Sequence[Any], shape: Sequence[Any]) -> tirx.Expr:
    """Return the position of an element among all of a tensor, row by row."""
    place = int64(0)
    for at, extent in zip(index, shape, strict=True):
        place = place * int64(extent) + int64(at)
    return place


def max_pool(
    x: te.Tensor,
    sizes: Sequence[tirx.Expr],
    kernel: Sequence[int],
    strides: Sequence[int],
    dilations: Sequence[int],
    pads: Sequence[Any],
    column_major: bool,
) -> list[te.Tensor]:
    """Return the largest element of each window, and where in all of ``x`` it lies.

    Parameters
    ----------
    x
        (n, c, ...).
    sizes
        The extents of the result.
    pads
        What is put before each spatial axis; no element there is the largest.
    column_major
        Whether a position counts the first spatial axis fastest, not the last.
    """
    dtype = str(x.dtype)

    def combine(left: Any, right: Any) -> Any:
        # Of equal ones the first.
        first = tirx.all(right[1].equal(left[1]), right[0] < left[0])
        better = tirx.any(right[1] > left[1], first)
        return tuple(tirx.Select(better, new, old) for old, new in zip(left, right, strict=True))

    def start(*_: str) -> Any:
        return tirx.max_value("int64"), identity("max", dtype)

    largest = te.comm_reducer(combine, start, name="largest")
    ks = _kernel_axes(kernel)
    extents = list(x.shape[2:])

    def element(n: tirx.Var, c: tirx.Var, *place: tirx.Var) -> Any:
        own = [
            i * step - pad + k * dilation
            for i, step, pad, k, dilation in zip(place, strides, pads, ks, dilations, strict=True)
        ]
        inside = tirx.all(*(tirx.all(i >= 0, i < e) for i, e in zip(own, extents, strict=True)))
        value = tirx.if_then_else(inside, x(n, c, *own), identity("max", dtype))
        position = _flat([n, c, *own], x.shape)
        index = tirx.Select(inside, position, tirx.max_value("int64"))
        return largest((index, value), axis=ks)

    indices, values = te.compute(list(sizes), element, name="max_pool")
    if not column_major:
        return [values, indices]

    def turned(*place: tirx.Var) -> tirx.Expr:
        rest, inside = indices(*place), []
        for extent in reversed(extents):
            inside.append(tirx.floormod(rest, int64(extent)))
            rest = tirx.floordiv(rest, int64(extent))
        return _flat([rest, *inside], [1, *reversed(extents)])

    return [values, te.compute(list(sizes), turned, name="column_major")]


def col2im(
    x: te.Tensor,
    one_block: te.Tensor,
    image: Sequence[tirx.Expr],
    channels: tirx.Expr,
    counts: Sequence[tirx.Expr],
    strides: Sequence[int],
    dilations: Sequence[int],
    pads: Sequence[int],
) -> te.Tensor:
    """Add up blocks where they overlap in an image.

    Parameters
    ----------
    x
        (n, c * elements of a block, blocks).
    one_block
        A tensor of a block's extents; its elements are not read.
    image, channels
        The image's extents, and how many channels it has.
    counts
        How many blocks there are along each axis.
    """
    block = list(one_block.shape)
    ks, zero = _kernel_axes(block), tirx.const(0, str(x.dtype))

    def element(n: tirx.Var, c: tirx.Var, *place: tirx.Var) -> tirx.Expr:
        inside, blocks = _sources(place, ks, counts, strides, dilations, pads)
        value = x(n, _flat([c, *ks], [1, *block]), _flat(blocks, counts))
        return te.sum(tirx.if_then_else(inside, value, zero), axis=ks)

    return te.compute([x.shape[0], channels, *image], element, name="col2im")


def conv_transpose(
    x: te.Tensor,
    weight: te.Tensor,
    sizes: Sequence[tirx.Expr],
    strides: Sequence[int],
    dilations: Sequence[int],
    pads: Sequence[Any],
    groups: int,
) -> te.Tensor:
    """Transposed convolution over any number of axes, of any size that is asked for.

    Parameters
    ----------
    x
        (n, c, ...).
    weight
        (c, m / groups, ...).
    sizes
        The spatial extents of the result.
    pads
        What is cut off before each spatial axis; negative where zeros are put.
    """
    kernel, extents = list(weight.shape[2:]), list(x.shape[2:])
    per_group, members = weight.shape[1], tirx.floordiv(x.shape[1], groups)
    zero = tirx.const(0, str(x.dtype))
    channel = te.reduce_axis((0, members), name="channel")
    ks = _kernel_axes(kernel)

    def element(n: tirx.Var, m: tirx.Var, *place: tirx.Var) -> tirx.Expr:
        inside, sources = _sources(place, ks, extents, strides, dilations, pads)
        c = tirx.floordiv(m, per_group) * members + channel
        product = x(n, c, *sources) * weight(c, tirx.floormod(m, per_group), *ks)
        return te.sum(tirx.if_then_else(inside, product, zero), axis=[channel, *ks])

    shape = [x.shape[0], per_group * groups, *sizes]
    return te.compute(shape, element, name="conv_transpose")


def _sources(
    place: Sequence[tirx.Expr],
    ks: Sequence[tirx.IterVar],
    counts: Sequence[Any],
    strides: Sequence[int],
    dilations: Sequence[int],
    pads: Sequence[Any],
) -> tuple[tirx.Expr, list[tirx.Expr]]:
    """Return whether a window of the forward operation has a point as its element, and which."""
    conditions, windows = [], []
    for i, k, count, stride, dilation, pad in zip(
        place, ks, counts, strides, dilations, pads, strict=True
    ):
        begin = i + pad - k * dilation
        window = tirx.floordiv(begin, stride)
        conditions += [tirx.floormod(begin, stride).equal(0), window >= 0, window < count]
        windows.append(window)
    return tirx.all(*conditions), windows
