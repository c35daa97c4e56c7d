"""Reading images between their pixels."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence

from tvm import te, tirx

from moonpoly.compiler.ops.resample import real


def affine_grid(theta: te.Tensor, sizes: Sequence[tirx.Expr], align_corners: bool) -> te.Tensor:
    """Return where each point of an image lies after an affine map: (n, ..., d).

    Parameters
    ----------
    theta
        (n, d, d + 1); coordinates count from the last axis of the image to the first.
    sizes
        The image's d extents.
    """
    rank, dtype = len(sizes), str(theta.dtype)

    def coordinate(at: tirx.Expr, extent: tirx.Expr) -> tirx.Expr:
        i, n = tirx.Cast("float64", at), tirx.Cast("float64", extent)
        one, two = tirx.const(1.0, "float64"), tirx.const(2.0, "float64")
        if align_corners:
            return two * i / tirx.max(n - one, one) - one
        return (two * i + one) / n - one

    def element(n: tirx.Var, *place: tirx.Var) -> tirx.Expr:
        *point, row = place
        total = tirx.Cast("float64", theta(n, row, rank))
        for column in range(rank):
            axis = rank - 1 - column
            factor = tirx.Cast("float64", theta(n, row, column))
            total = total + factor * coordinate(point[axis], sizes[axis])
        return tirx.Cast(dtype, total)

    return te.compute([theta.shape[0], *sizes, rank], element, name="affine_grid")


def deformed_columns(
    x: te.Tensor,
    offset: te.Tensor,
    *mask: te.Tensor,
    kernel: Sequence[int],
    strides: Sequence[int],
    dilations: Sequence[int],
    pads: Sequence[int],
    groups: int,
) -> te.Tensor:
    """Return what a deformed window reads at each position: (n, c, elements of a kernel, ...).

    Parameters
    ----------
    x
        (n, c, ...).
    offset
        (n, groups * elements of a kernel * d, ...): by how much each element is moved.
    mask
        (n, groups * elements of a kernel, ...): what each element is multiplied by, if given.
    groups
        Into how many the channels are cut; each has offsets of its own.
    """
    dtype, rank, count = str(x.dtype), len(kernel), math.prod(kernel)
    members = tirx.floordiv(x.shape[1], groups)

    def element(n: tirx.Var, c: tirx.Var, k: tirx.Var, *place: tirx.Var) -> tirx.Expr:
        slot = tirx.floordiv(c, members) * count + k
        lows, shares = [], []
        for axis in range(rank):
            inner = math.prod(kernel[axis + 1 :])
            own = tirx.floormod(tirx.floordiv(k, inner), kernel[axis])
            start = place[axis] * strides[axis] - pads[axis] + own * dilations[axis]
            at = real(start) + real(offset(n, slot * rank + axis, *place))
            # Far outside all is zero; within these bounds a position is an integer.
            extent = real(x.shape[axis + 2])
            at = tirx.max(tirx.min(at, extent + real(1.0)), real(-2.0))
            low = tirx.floor(at)
            lows.append(tirx.Cast("int64", low))
            shares.append(at - low)
        total = real(0.0)
        for corner in itertools.product((0, 1), repeat=rank):
            points = [low + tirx.const(up, "int64") for low, up in zip(lows, corner, strict=True)]
            weight = real(1.0)
            for share, up in zip(shares, corner, strict=True):
                weight = weight * (share if up else real(1.0) - share)
            inside = tirx.all(
                *(
                    tirx.all(point >= 0, point < extent)
                    for point, extent in zip(points, x.shape[2:], strict=True)
                )
            )
            value = tirx.if_then_else(inside, real(x(n, c, *points)), real(0.0))
            total = total + weight * value
        for factor in mask:
            total = total * real(factor(n, slot, *place))
        return tirx.Cast(dtype, total)

    shape = [x.shape[0], x.shape[1], count, *offset.shape[2:]]
    return te.compute(shape, element, name="deformed_columns")
