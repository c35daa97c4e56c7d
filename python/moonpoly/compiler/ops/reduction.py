"""Reductions that Relax has no operator for."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from tvm import te, tirx, topi

_FLOATS = ("float16", "float32", "float64", "bfloat16")


def identity(kind: str, dtype: str) -> tirx.Expr:
    """Return the value that a reduction of nothing gives.

    Parameters
    ----------
    kind
        ``"sum"``, ``"prod"``, ``"max"`` or ``"min"``.
    """
    if kind in ("sum", "prod"):
        return tirx.const(int(kind == "prod"), dtype)
    if dtype in _FLOATS:
        # TVM's own largest and smallest are finite: a row of infinities would shrink.
        return tirx.const(float("-inf") if kind == "max" else float("inf"), dtype)
    return tirx.min_value(dtype) if kind == "max" else tirx.max_value(dtype)


_COMBINE: dict[str, Callable[[Any, Any], Any]] = {
    "sum": lambda left, right: left + right,
    "prod": lambda left, right: left * right,
    "max": lambda left, right: tirx.max(left, right),
    "min": lambda left, right: tirx.min(left, right),
}


def _reducer(kind: str) -> Callable[..., Any]:
    return te.comm_reducer(_COMBINE[kind], lambda dtype: identity(kind, str(dtype)), name=kind)


def reduce(x: te.Tensor, kind: str, axes: Sequence[int], keepdims: bool) -> te.Tensor:
    """Reduce ``x`` over ``axes`` by ``kind``, as :func:`identity` names it."""
    reduced = {axis: te.reduce_axis((0, x.shape[axis]), name=f"k{axis}") for axis in axes}
    kept = [axis for axis in range(len(x.shape)) if keepdims or axis not in reduced]
    shape = [1 if axis in reduced else x.shape[axis] for axis in kept]

    def compute(*indices: tirx.Expr) -> tirx.Expr:
        place = dict(zip(kept, indices, strict=True))
        element = x(*(reduced.get(axis, place.get(axis)) for axis in range(len(x.shape))))
        return _reducer(kind)(element, axis=list(reduced.values()))

    return te.compute(shape, compute, name=f"reduce_{kind}")


def reduce_some(x: te.Tensor, kind: str, kept: Sequence[tirx.Expr]) -> te.Tensor:
    """Reduce ``x`` over axes that are known at run time only.

    Parameters
    ----------
    kept
        The extents of the result: of each axis its own, or 1 if it is reduced.
    """
    if not kept:
        return topi.identity(x)
    # A symbol of its own would have to be passed to the function, which fusion can't do.
    reduced = [
        tirx.Select(extent.equal(size), tirx.const(1, "int64"), tirx.Cast("int64", size))
        for extent, size in zip(kept, x.shape, strict=True)
    ]

    def compute(*indices: tirx.Expr) -> tirx.Expr:
        ks = [te.reduce_axis((0, extent), name="k") for extent in reduced]
        element = x(*(index + k for index, k in zip(indices, ks, strict=True)))
        return _reducer(kind)(element, axis=ks)

    return te.compute(list(kept), compute, name=f"reduce_{kind}")


def count_hits(axes: te.Tensor, rank: int, all_if_none: bool) -> te.Tensor:
    """Return for each of ``rank`` axes how often ``axes`` (of rank 1) names it.

    Parameters
    ----------
    all_if_none
        Whether every axis counts as named when ``axes`` is empty.
    """
    count = axes.shape[0]
    k = te.reduce_axis((0, count), name="k")

    def hit(axis: tirx.Expr) -> tirx.Expr:
        named = tirx.Cast("int64", axes[k])
        here = tirx.any(named.equal(axis), (named + rank).equal(axis))
        return te.sum(tirx.Select(here, tirx.const(1, "int64"), tirx.const(0, "int64")), axis=k)

    hits = te.compute((rank,), hit, name="hits")
    if not all_if_none:
        return hits
    one = tirx.const(1, "int64")
    none = tirx.Cast("int64", count).equal(tirx.const(0, "int64"))
    return te.compute((rank,), lambda axis: tirx.Select(none, one, hits[axis]), name="hits")


def kept_sizes(hits: te.Tensor, x: te.Tensor) -> te.Tensor:
    """Return the sizes of ``x``, with 1 for each axis that is hit."""

    def size(axis: tirx.Expr) -> tirx.Expr:
        value = tirx.const(1, "int64")
        for number, extent in enumerate(x.shape):
            value = tirx.Select(axis.equal(number), tirx.Cast("int64", extent), value)
        return tirx.Select(hits[axis] > 0, tirx.const(1, "int64"), value)

    return te.compute((len(x.shape),), size, name="kept_sizes")


def remaining_sizes(hits: te.Tensor, x: te.Tensor, count: int) -> te.Tensor:
    """Return the ``count`` sizes of ``x`` whose axes are not hit, in order."""
    zero, one = tirx.const(0, "int64"), tirx.const(1, "int64")

    def size(place: tirx.Expr) -> tirx.Expr:
        value, before = zero, zero
        for axis, extent in enumerate(x.shape):
            free = hits[axis].equal(zero)
            value = tirx.Select(
                tirx.all(free, before.equal(place)), tirx.Cast("int64", extent), value
            )
            before = before + tirx.Select(free, one, zero)
        return value

    return te.compute((count,), size, name="remaining_sizes")
