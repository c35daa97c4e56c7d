"""Resizing in every form of the standard: sizes and scales by data, antialiased, cropped."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np
from tvm import relax

from moonpoly.compiler.frontend.converters.operand_shapes import with_sizes
from moonpoly.compiler.frontend.converters.sizes import known_shape, normal_axis, read_dims
from moonpoly.compiler.frontend.graph.context import Context
from moonpoly.compiler.frontend.node.values import Integer
from moonpoly.compiler.frontend.symbolic.elements import as_expr
from moonpoly.compiler.ops import antialias, resample
from moonpoly.compiler.ops.resample import Sampling


def resize_any(ctx: Context) -> relax.Expr:
    """Import a Resize of opset 11 and later, one axis at a time."""
    rank = len(known_shape(ctx, 0))
    axes = [normal_axis(ctx, axis, rank) for axis in ctx.attrs.get("axes", range(rank))]
    by_size = ctx.has_input(3) and ctx.shape(3) != (0,)
    policy = ctx.attrs.get("keep_aspect_ratio_policy", "stretch")
    return _resize(ctx, 3 if by_size else 2, axes, _sampling(ctx), policy)


def resize_by_scales(ctx: Context, index: int, mode: str) -> relax.Expr:
    """Resize by the scales that operand ``index`` holds, from the upper left corner."""
    axes = list(range(len(known_shape(ctx, 0))))
    kind = "nearest" if mode == "nearest" else "linear"
    sampling = Sampling(kind, "asymmetric", "simple", -0.75, False, 0.0)
    return _resize(ctx, index, axes, sampling, "stretch")


def _resize(
    ctx: Context, index: int, axes: Sequence[int], sampling: Sampling, policy: str
) -> relax.Expr:
    """Resize by operand ``index``: scales if it is of a floating-point type, else sizes."""
    shape, dtype = known_shape(ctx, 0), ctx.dtype(0)
    if sampling.mode != "nearest" and not dtype.startswith("float"):
        ctx.unsupported(f"interpolating {dtype}; floating-point types are supported")
    wanted = _vector(ctx, index, len(axes))
    if not ctx.dtype(index).startswith("float"):
        wanted = ctx.emit(relax.op.astype(wanted, "int64"))
    plan: dict[str, Any] = {"axes": axes, "policy": policy}
    scales = ctx.call_te(
        partial(resample.plan_scales, **plan), ctx.input(0), wanted, primfunc_name_hint="scales"
    )
    table = ctx.call_te(
        partial(resample.plan_sizes, **plan),
        *(ctx.input(0), wanted, scales),
        primfunc_name_hint="resized_sizes",
    )
    sizes = read_dims(ctx, table, len(shape), "resized")
    if sampling.coordinates == "tf_crop_and_resize":
        roi = _vector(ctx, 1, 2 * len(axes))
    else:
        roi = relax.const(np.zeros(0, np.float32))
    filters = bool(ctx.attrs.get("antialias", 0)) and sampling.mode != "nearest"
    if filters and sampling.coordinates == "tf_crop_and_resize":
        ctx.unsupported("antialiasing while cropping")
    data = ctx.input(0)
    for place, axis in enumerate(axes):
        if _is_kept(ctx, index, place, shape[axis], sampling):
            continue
        size = [as_expr(sizes[axis])]
        if filters:
            data = _filtered(ctx, data, scales, size, axis, place, sampling)
            continue
        along = partial(resample.resample, axis=axis, place=place, sampling=sampling)
        data = ctx.call_te(along, data, scales, roi, size, primfunc_name_hint="resample")
    return data


def _vector(ctx: Context, index: int, count: int) -> relax.Expr:
    """Return an operand that has so many elements, which is checked where it isn't known."""
    if not ctx.has_input(index):
        ctx.unsupported(f"operand {index} is left out, expected {count} elements")
    given = known_shape(ctx, index)
    if len(given) != 1 or (isinstance(given[0], int) and given[0] != count):
        ctx.unsupported(f"operand {index} has shape {given}, expected {count} elements")
    vector = ctx.input(index)
    assert vector is not None, "it is given"
    return with_sizes(ctx, vector, [count])


def _filtered(
    ctx: Context,
    data: relax.Expr,
    scales: relax.Expr,
    size: Sequence[Any],
    axis: int,
    place: int,
    sampling: Sampling,
) -> relax.Expr:
    """Resize along an axis by filters that are as wide as its scale asks for."""
    where: dict[str, Any] = {"axis": axis, "place": place, "sampling": sampling}
    count = ctx.call_te(
        partial(antialias.count_taps, place=place, mode=sampling.mode),
        scales,
        primfunc_name_hint="taps",
    )
    taps = read_dims(ctx, count, 1, "taps")
    weights = ctx.call_te(
        partial(antialias.weigh_taps, **where),
        *(data, scales, size, taps),
        primfunc_name_hint="tap_weights",
    )
    return ctx.call_te(
        partial(antialias.apply_taps, **where),
        *(data, scales, weights),
        primfunc_name_hint="filtered",
    )


def _is_kept(ctx: Context, index: int, place: int, extent: Integer, sampling: Sampling) -> bool:
    """Return whether an axis is known to be left as it is."""
    known = ctx.constant(index)
    if known is None or sampling.coordinates == "tf_crop_and_resize":
        return False
    is_scale = ctx.dtype(index).startswith("float")
    return bool(known[place] == (1 if is_scale else extent))


def _sampling(ctx: Context) -> Sampling:
    return Sampling(
        mode=ctx.attrs.get("mode", "nearest"),
        coordinates=ctx.attrs.get("coordinate_transformation_mode", "half_pixel"),
        rounding=ctx.attrs.get("nearest_mode", "round_prefer_floor"),
        cubic=ctx.attrs.get("cubic_coeff_a", -0.75),
        exclude_outside=bool(ctx.attrs.get("exclude_outside", 0)),
        extrapolation=ctx.attrs.get("extrapolation_value", 0.0),
    )
