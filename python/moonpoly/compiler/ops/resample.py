"""Resizing along one axis after the other, with scales that may be known at run time only."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from tvm import te, tirx

_REAL = "float64"


@dataclass(frozen=True)
class Sampling:
    """How a result is read from its input along an axis; ONNX's words.

    Parameters
    ----------
    mode
        ``"nearest"``, ``"linear"`` or ``"cubic"``.
    coordinates
        The coordinate transformation mode.
    rounding
        The nearest mode; ``"simple"``, which opset 10 leaves open, is ONNX Runtime's: upwards where
        the result is smaller, else downwards.
    cubic
        The cubic coefficient.
    exclude_outside
        Whether what lies outside has no weight; else it is read at the edge.
    extrapolation
        The value outside of the region, when cropping.
    """

    mode: str
    coordinates: str
    rounding: str
    cubic: float
    exclude_outside: bool
    extrapolation: float


def real(value: float | tirx.Expr) -> tirx.Expr:
    """Return a number or an expression in the type that coordinates are computed in."""
    if isinstance(value, int | float):
        return tirx.const(float(value), _REAL)
    return tirx.Cast(_REAL, value)


def plan_scales(x: te.Tensor, wanted: te.Tensor, axes: Sequence[int], policy: str) -> te.Tensor:
    """Return the scales, from sizes that are wanted or from scales.

    Parameters
    ----------
    axes
        The axis of each element of ``wanted``.
    policy
        ``"stretch"``, or ``"not_larger"`` or ``"not_smaller"`` to keep the aspect ratio.
    """
    scales = [real(wanted[place]) for place in range(len(axes))]
    if not str(wanted.dtype).startswith("float"):
        scales = [each / real(x.shape[axis]) for each, axis in zip(scales, axes, strict=True)]
        if policy != "stretch":
            choose = tirx.min if policy == "not_larger" else tirx.max
            common = scales[0]
            for scale in scales[1:]:
                common = choose(common, scale)
            scales = [common] * len(axes)

    def element(place: tirx.Expr) -> tirx.Expr:
        value = real(0.0)
        for number, scale in enumerate(scales):
            value = tirx.Select(place.equal(number), scale, value)
        return value

    return te.compute((len(axes),), element, name="resize_scales")


def plan_sizes(
    x: te.Tensor, wanted: te.Tensor, scales: te.Tensor, axes: Sequence[int], policy: str
) -> te.Tensor:
    """Return the size of every axis of the result; the parameters are as for the scales."""
    by_scale = str(wanted.dtype).startswith("float")

    def element(place: tirx.Expr) -> tirx.Expr:
        value = tirx.const(0, "int64")
        for axis, extent in enumerate(x.shape):
            own: tirx.Expr = tirx.Cast("int64", extent)
            if axis in axes:
                number = list(axes).index(axis)
                scaled = real(extent) * scales[number]
                if by_scale:
                    own = tirx.Cast("int64", tirx.floor(scaled))
                elif policy == "stretch":
                    own = tirx.Cast("int64", wanted[number])
                else:
                    own = tirx.Cast("int64", tirx.floor(scaled + real(0.5)))
            value = tirx.Select(place.equal(axis), own, value)
        return value

    return te.compute((len(x.shape),), element, name="resized_sizes")


def resample(
    x: te.Tensor,
    scales: te.Tensor,
    roi: te.Tensor,
    size: Sequence[tirx.Expr],
    axis: int,
    place: int,
    sampling: Sampling,
) -> te.Tensor:
    """Resize ``x`` along ``axis``.

    Parameters
    ----------
    scales
        Of each axis that is resized.
    roi
        Starts and then ends of the region that is cropped to.
    size
        The new extent, alone.
    place
        Which element of ``scales`` and ``roi`` is the axis's.
    """
    shape = list(x.shape)
    (shape[axis],) = size
    count = int(roi.shape[0]) // 2
    last = tirx.Cast("int64", x.shape[axis]) - 1

    def read(index: Sequence[tirx.Expr], position: tirx.Expr) -> tirx.Expr:
        inside = tirx.max(tirx.min(position, last), tirx.const(0, "int64"))
        return x(*index[:axis], inside, *index[axis + 1 :])

    def element(*index: tirx.Expr) -> tirx.Expr:
        length, new = real(x.shape[axis]), real(shape[axis])
        ends = (real(roi[place]), real(roi[place + count])) if count else (real(0), real(1))
        at = source_coordinate(
            real(index[axis]), length, new, scales[place], ends, sampling.coordinates
        )
        value = _sample(
            *(at, lambda position: read(index, position), last, scales[place]),
            *(sampling, str(x.dtype)),
        )
        if sampling.coordinates != "tf_crop_and_resize":
            return value
        outside = tirx.any(at < real(0), at > length - real(1))
        return tirx.Select(outside, tirx.const(sampling.extrapolation, str(x.dtype)), value)

    return te.compute(shape, element, name="resample")


def source_coordinate(
    i: tirx.Expr,
    length: tirx.Expr,
    new: tirx.Expr,
    scale: tirx.Expr,
    ends: tuple[tirx.Expr, tirx.Expr],
    mode: str,
) -> tirx.Expr:
    """Return where element ``i`` of the result lies in the input."""
    half, one, zero = real(0.5), real(1.0), real(0.0)
    several = new > one
    steps = tirx.max(new - one, one)
    if mode == "asymmetric":
        return i / scale
    if mode == "align_corners":
        # A scale may ask for a fraction of an element more than there is.
        span = length * scale - one
        return tirx.Select(several, i * (length - one) / span, zero)
    if mode == "tf_crop_and_resize":
        start, end = ends
        along = start * (length - one) + i * (end - start) * (length - one) / steps
        return tirx.Select(several, along, half * (start + end) * (length - one))
    centre = (i + half) / scale - half
    if mode == "pytorch_half_pixel":
        return tirx.Select(several, centre, zero)
    if mode == "half_pixel_symmetric":
        return length * half * (one - new / (length * scale)) + centre
    return centre


def _sample(
    at: tirx.Expr,
    read: Callable[[tirx.Expr], tirx.Expr],
    last: tirx.Expr,
    scale: tirx.Expr,
    sampling: Sampling,
    dtype: str,
) -> tirx.Expr:
    if sampling.mode == "nearest":
        half = real(0.5)
        rounded = {
            "round_prefer_floor": lambda: tirx.ceil(at - half),
            "round_prefer_ceil": lambda: tirx.floor(at + half),
            "floor": lambda: tirx.floor(at),
            "ceil": lambda: tirx.ceil(at),
            "simple": lambda: tirx.Select(scale < real(1.0), tirx.ceil(at), tirx.floor(at)),
        }[sampling.rounding]()
        return read(tirx.Cast("int64", rounded))
    first = tirx.floor(at)
    base, ratio = tirx.Cast("int64", first), at - first
    reach = 1 if sampling.mode == "linear" else 2
    total, weights = real(0.0), real(0.0)
    for offset in range(1 - reach, 1 + reach):
        position = base + tirx.const(offset, "int64")
        distance = real(float(offset)) - ratio
        weight = filter_weight(distance, sampling.mode, sampling.cubic)
        if sampling.exclude_outside:
            inside = tirx.all(position >= 0, position <= last)
            weight = tirx.Select(inside, weight, real(0.0))
        total = total + weight * tirx.Cast(_REAL, read(position))
        weights = weights + weight
    if sampling.exclude_outside:
        total = total / weights
    return tirx.Cast(dtype, total)


def filter_weight(distance: tirx.Expr, mode: str, a: float) -> tirx.Expr:
    """Return the weight of what lies at a distance: a triangle, or a cubic curve."""
    d = tirx.Select(distance < real(0.0), -distance, distance)
    one, zero = real(1.0), real(0.0)
    if mode == "linear":
        return tirx.max(one - d, zero)
    near = ((real(a + 2) * d - real(a + 3)) * d) * d + one
    far = ((real(a) * d - real(5 * a)) * d + real(8 * a)) * d - real(4 * a)
    return tirx.Select(d <= one, near, tirx.Select(d < real(2.0), far, zero))
