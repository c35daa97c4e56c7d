"""Resizing of images: sizes in symbols, whether they come as sizes or as scales."""

from __future__ import annotations

from typing import Any

import numpy as np
from tvm import relax, topi

from moonpoly.compiler.frontend.converters.images.resample import resize_any, resize_by_scales
from moonpoly.compiler.frontend.converters.registry import converts
from moonpoly.compiler.frontend.graph.context import Context
from moonpoly.compiler.frontend.node.values import Integer
from moonpoly.compiler.frontend.symbolic.elements import as_expr

_METHODS = {"nearest": "nearest_neighbor", "linear": "linear", "cubic": "cubic"}


@converts("Resize")
def _resize(ctx: Context) -> relax.Expr | None:
    if ctx.opset < 11:
        # Before that a Resize was what Upsample is.
        return _upsample(ctx)
    image = _resize_image(ctx)
    return resize_any(ctx) if image is None else image


def _resize_image(ctx: Context) -> relax.Expr | None:
    """Resize an image to a size known in symbols by Relax's operators, which have schedules."""
    shape = ctx.shape(0)
    if shape is None or len(shape) not in (3, 4, 5) or ctx.attrs.get("antialias", 0):
        return None
    if "axes" in ctx.attrs or ctx.attrs.get("keep_aspect_ratio_policy", "stretch") != "stretch":
        return None
    mode = ctx.attrs.get("coordinate_transformation_mode", "half_pixel")
    if mode == "tf_crop_and_resize":
        return None
    sizes = _sizes(ctx, shape)
    if sizes is None:
        return None
    for want, have in zip(sizes[:2], shape[:2], strict=True):
        if not ctx.symbols.equal(want, have):
            return None
    image: Any = {
        "layout": {3: "NCW", 4: "NCHW", 5: "NCDHW"}[len(shape)],
        "method": _METHODS[ctx.attrs.get("mode", "nearest")],
        "coordinate_transformation_mode": mode,
        "rounding_method": ctx.attrs.get("nearest_mode", "round_prefer_floor"),
        "cubic_alpha": ctx.attrs.get("cubic_coeff_a", -0.75),
        "cubic_exclude": ctx.attrs.get("exclude_outside", 0),
        "extrapolation_value": ctx.attrs.get("extrapolation_value", 0.0),
    }
    spatial = [as_expr(size) for size in sizes[2:]]
    roi = [0.0] * (2 * len(spatial))
    if len(shape) == 3:
        layout, method, *rest = image.values()
        return ctx.call_te(topi.image.resize1d, ctx.input(0), roi, spatial, layout, method, *rest)
    resize = relax.op.image.resize2d if len(shape) == 4 else relax.op.image.resize3d
    return resize(ctx.input(0), size=relax.ShapeExpr(spatial), roi=roi, **image)


@converts("Upsample")
def _upsample(ctx: Context) -> relax.Expr | None:
    """Resize as opset 9 does: from the upper left corner, by scales."""
    shape = ctx.shape(0)
    scales = ctx.constant(1) if ctx.has_input(1) else np.asarray(ctx.attrs.get("scales", []))
    mode = ctx.attrs.get("mode", "nearest")
    if shape is None or len(shape) != 4 or scales is None or scales.size != 4:
        return resize_by_scales(ctx, 1, mode) if ctx.has_input(1) else None
    smaller = scales.reshape(-1)[2:] < 1.0
    if mode == "nearest" and smaller.any() != smaller.all():
        return resize_by_scales(ctx, 1, mode)
    sizes = [_scaled(ctx, dim, float(scale)) for dim, scale in zip(shape, scales, strict=True)]
    return relax.op.image.resize2d(
        ctx.input(0),
        size=relax.ShapeExpr([as_expr(size) for size in sizes[2:]]),
        roi=[0.0] * 4,
        layout="NCHW",
        method=_METHODS["nearest" if mode == "nearest" else "linear"],
        coordinate_transformation_mode="asymmetric",
        rounding_method="ceil" if smaller.any() else "floor",
    )


def _sizes(ctx: Context, shape: tuple[Integer, ...]) -> list[Integer] | None:
    """Return the sizes that are asked for, by number or as scales, or None if unknown."""
    if ctx.has_input(3) and ctx.shape(3) != (0,):
        given = ctx.integers(3)
        return None if given is None or len(given) != len(shape) else list(given)
    scales = ctx.values[2] if ctx.has_input(2) else None
    factors = None if scales is None else scales.known_elements()
    if factors is None or len(factors) != len(shape):
        return None
    return [_scaled(ctx, dim, scale) for dim, scale in zip(shape, factors, strict=True)]


def _scaled(ctx: Context, dim: Integer, scale: Any) -> Integer:
    if scale == 1:
        return dim
    return ctx.symbols.to_integer(ctx.symbols.floor(ctx.symbols.multiply(dim, scale)))
