"""Resizing in every form of the standard: sizes and scales by data, antialiased, cropped."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial

import numpy as np
from tvm import relax

from moonpoly.compiler.frontend.context import Context
from moonpoly.compiler.frontend.converters.sizes import known_shape, normal_axis, read_dims
from moonpoly.compiler.frontend.symbolic.elements import as_expr
from moonpoly.compiler.frontend.values import Integer
from moonpoly.compiler.ops import resample
from moonpoly.compiler.ops.resample import Sampling


def resize_any(ctx: Context) -> relax.Expr:
    """Import a Resize of opset 11 and later, one axis at a time."""
    shape, dtype = known_shape(ctx, 0), ctx.dtype(0)
    axes = [normal_axis(ctx, axis, len(shape)) for axis in ctx.attrs.get("axes", range(len(shape)))]
    sampling = _sampling(ctx)
    if sampling.mode != "nearest" and not dtype.startswith("float"):
        ctx.unsupported(f"interpolating {dtype}; floating-point types are supported")
    by_size = ctx.has_input(3) and ctx.shape(3) != (0,)
    wanted = ctx.input(3 if by_size else 2)
    policy = ctx.attrs.get("keep_aspect_ratio_policy", "stretch")
    if by_size:
        wanted = ctx.emit(relax.op.astype(wanted, "int64"))
    plan = {"axes": axes, "policy": policy}
    scales = ctx.call_te(
        partial(resample.plan_scales, **plan), ctx.input(0), wanted, primfunc_name_hint="scales"
    )
    table = ctx.call_te(
        partial(resample.plan_sizes, **plan),
        *(ctx.input(0), wanted, scales),
        primfunc_name_hint="resized_sizes",
    )
    sizes = read_dims(ctx, table, len(shape), "resized")
    roi = ctx.input(1) if sampling.coordinates == "tf_crop_and_resize" else None
    if roi is None:
        roi = relax.const(np.zeros(0, np.float32))
    shrinks = _shrinks(ctx, by_size, axes) if ctx.attrs.get("antialias", 0) else {}
    data = ctx.input(0)
    for place, axis in enumerate(axes):
        if _is_kept(ctx, by_size, place, shape[axis], sampling):
            continue
        own = replace(sampling, shrink=min(shrinks.get(axis, 1.0), 1.0))
        along = partial(resample.resample, axis=axis, place=place, sampling=own)
        size = [as_expr(sizes[axis])]
        data = ctx.call_te(along, data, scales, roi, size, primfunc_name_hint="resample")
    return data


def _is_kept(ctx: Context, by_size: bool, place: int, extent: Integer, sampling: Sampling) -> bool:
    """Return whether an axis is known to be left as it is."""
    known = ctx.constant(3 if by_size else 2)
    if known is None or sampling.coordinates == "tf_crop_and_resize":
        return False
    return bool(known[place] == (extent if by_size else 1))


def _sampling(ctx: Context) -> Sampling:
    return Sampling(
        mode=ctx.attrs.get("mode", "nearest"),
        coordinates=ctx.attrs.get("coordinate_transformation_mode", "half_pixel"),
        rounding=ctx.attrs.get("nearest_mode", "round_prefer_floor"),
        cubic=ctx.attrs.get("cubic_coeff_a", -0.75),
        exclude_outside=bool(ctx.attrs.get("exclude_outside", 0)),
        extrapolation=ctx.attrs.get("extrapolation_value", 0.0),
    )


def _shrinks(ctx: Context, by_size: bool, axes: Sequence[int]) -> dict[int, float]:
    """Return each axis's scale, which tells how many elements an antialiasing filter reads."""
    known, shape = ctx.constant(3 if by_size else 2), known_shape(ctx, 0)
    if known is None:
        ctx.unsupported("antialiasing by a scale that is known at run time only")
    found = {}
    for axis, value in zip(axes, known, strict=True):
        extent = shape[axis]
        if by_size and not isinstance(extent, int):
            ctx.unsupported("antialiasing by a size, of an image whose size is not known")
        found[axis] = float(value) / extent if by_size else float(value)
    return found
