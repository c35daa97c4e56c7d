"""Shrinking an image by filters as wide as the scale asks for, which is known at run time only.

How many elements a filter reads becomes a dimension; the filters' weights are a table.
"""

from __future__ import annotations

from collections.abc import Sequence

from tvm import te, tirx

from moonpoly.compiler.ops.bounds import int64
from moonpoly.compiler.ops.resample import Sampling, filter_weight, real, source_coordinate


def _shrink(scales: te.Tensor, place: int) -> tirx.Expr:
    """Return what the filter is stretched by: a scale above 1 leaves it as it is."""
    return tirx.min(scales[place], real(1.0))


def count_taps(scales: te.Tensor, place: int, mode: str) -> te.Tensor:
    """Return how many elements a filter reads, as a tensor of one element.

    Parameters
    ----------
    place
        Which element of ``scales`` is the axis's.
    mode
        ``"linear"`` or ``"cubic"``.
    """
    reach = real(1.0 if mode == "linear" else 2.0)
    before = tirx.Cast("int64", tirx.floor(-reach / _shrink(scales, place))) + 1
    return te.compute((1,), lambda _: int64(2) - int64(2) * before, name="taps")


def weigh_taps(
    x: te.Tensor,
    scales: te.Tensor,
    size: Sequence[tirx.Expr],
    taps: Sequence[tirx.Expr],
    axis: int,
    place: int,
    sampling: Sampling,
) -> te.Tensor:
    """Return the weight of each element that a filter reads: (new extent, taps).

    Parameters
    ----------
    size, taps
        The new extent, and how many elements are read, alone.
    axis, place
        The axis of ``x``, and which element of ``scales`` is its own.
    """
    (extent,), (count,) = size, taps
    last = int64(x.shape[axis]) - 1

    def weight(i: tirx.Var, tap: tirx.Var) -> tirx.Expr:
        at = _position(x, scales, i, extent, axis, place, sampling)
        low = tirx.floor(at)
        offset = int64(tap) + _first(count)
        distance = (real(offset) - (at - low)) * _shrink(scales, place)
        value = filter_weight(distance, sampling.mode, sampling.cubic)
        if not sampling.exclude_outside:
            return value
        source = tirx.Cast("int64", low) + offset
        return tirx.Select(tirx.all(source >= 0, source <= last), value, real(0.0))

    return te.compute((extent, count), weight, name="tap_weights")


def apply_taps(
    x: te.Tensor,
    scales: te.Tensor,
    weights: te.Tensor,
    axis: int,
    place: int,
    sampling: Sampling,
) -> te.Tensor:
    """Return ``x`` resized along ``axis`` by the filters of :func:`weigh_taps`."""
    extent, count = weights.shape
    last, zero = int64(x.shape[axis]) - 1, int64(0)
    tap, other = (te.reduce_axis((0, count), name=name) for name in ("tap", "other"))
    totals = te.compute((extent,), lambda i: te.sum(weights[i, other], axis=other), name="totals")
    shape = [*x.shape[:axis], extent, *x.shape[axis + 1 :]]

    def element(*index: tirx.Var) -> tirx.Expr:
        i = index[axis]
        low = tirx.floor(_position(x, scales, i, extent, axis, place, sampling))
        source = tirx.Cast("int64", low) + int64(tap) + _first(count)
        inside = tirx.max(tirx.min(source, last), zero)
        value = real(x(*index[:axis], inside, *index[axis + 1 :]))
        return te.sum(weights[i, tap] * value, axis=tap)

    sums = te.compute(shape, element, name="filtered")
    return te.compute(
        shape,
        lambda *index: tirx.Cast(str(x.dtype), sums(*index) / totals[index[axis]]),
        name="resample",
    )


def _first(count: tirx.Expr) -> tirx.Expr:
    """Return where a filter begins, counted from the element below its middle."""
    return int64(1) - tirx.floordiv(int64(count), int64(2))


def _position(
    x: te.Tensor,
    scales: te.Tensor,
    i: tirx.Expr,
    extent: tirx.Expr,
    axis: int,
    place: int,
    sampling: Sampling,
) -> tirx.Expr:
    """Return the middle of filter ``i``."""
    return source_coordinate(
        *(real(i), real(x.shape[axis]), real(extent), scales[place]),
        *((real(0.0), real(1.0)), sampling.coordinates),
    )
