"""Sizes and positions worked out at run time, from tensors that the graph computes.

Each function gives a small int64 tensor; sizes in it are natural numbers, so that they can become
dimensions. Ranks and lengths are known at compile time.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import tvm_ffi
from tvm import te, tirx


def int64(value: Any) -> tirx.Expr:
    """Return a number or an expression as int64."""
    return tirx.const(value, "int64") if isinstance(value, int) else tirx.Cast("int64", value)


def _table(rows: Sequence[Sequence[tirx.Expr]], name: str) -> te.Tensor:
    """Return a tensor of rank 2 with the given elements."""

    def element(row: tirx.Expr, column: tirx.Expr) -> tirx.Expr:
        value = int64(0)
        for i, line in enumerate(rows):
            for j, item in enumerate(line):
                value = tirx.Select(tirx.all(row.equal(i), column.equal(j)), item, value)
        return value

    return te.compute((len(rows), len(rows[0])), element, name=name)


def row(table: te.Tensor, number: int) -> te.Tensor:
    """Return one row of a tensor of rank 2."""
    return te.compute((table.shape[1],), lambda j: table[number, j], name="row")


def pad_bounds(x: te.Tensor, pads: te.Tensor, axes: te.Tensor) -> te.Tensor:
    """Return for each axis of ``x`` what is put before it (row 0), and its size with all."""
    rank, count = len(x.shape), int(axes.shape[0])
    columns = []
    for axis, extent in enumerate(x.shape):
        before, after = int64(0), int64(0)
        for number in range(count):
            named = int64(axes[number])
            here = tirx.any(named.equal(int64(axis)), named.equal(int64(axis - rank)))
            before = tirx.Select(here, int64(pads[number]), before)
            after = tirx.Select(here, int64(pads[number + count]), after)
        columns.append((before, tirx.max(int64(extent) + before + after, int64(0))))
    return _table(list(zip(*columns, strict=True)), "pad_bounds")


def pad(
    x: te.Tensor, bounds: te.Tensor, value: te.Tensor, sizes: Sequence[tirx.Expr], mode: str
) -> te.Tensor:
    """Pad ``x`` as ``pad_bounds`` describes.

    Parameters
    ----------
    value
        What is put around, in mode ``"constant"``; of rank 0.
    sizes
        The sizes of the result.
    mode
        ``"constant"``, ``"edge"``, ``"reflect"`` or ``"wrap"``.
    """

    def element(*place: tirx.Expr) -> tirx.Expr:
        own = [index - bounds[0, axis] for axis, index in enumerate(place)]
        sizes_of_x = [int64(extent) for extent in x.shape]
        if mode == "constant":
            inside = [tirx.all(i >= 0, i < n) for i, n in zip(own, sizes_of_x, strict=True)]
            return tirx.if_then_else(tirx.all(*inside), x(*own), value()) if inside else x()
        return x(*(_source(i, n, mode) for i, n in zip(own, sizes_of_x, strict=True)))

    return te.compute(list(sizes), element, name="pad")


def pad_from_itself(
    x: te.Tensor, sizes: Sequence[tirx.Expr], before: Sequence[tirx.Expr], mode: str
) -> te.Tensor:
    """Pad ``x`` with its own elements: ``before`` of them before each axis, up to ``sizes``.

    ``mode`` is ``"edge"``, ``"reflect"`` or ``"wrap"``.
    """

    def element(*place: tirx.Expr) -> tirx.Expr:
        source = []
        for i, low, extent, size in zip(place, before, x.shape, sizes, strict=True):
            starts = isinstance(low, tirx.IntImm) and low.value == 0
            is_whole = starts and tvm_ffi.structural_equal(extent, size)
            source.append(i if is_whole else _source(i - low, int64(extent), mode))
        return x(*source)

    return te.compute(list(sizes), element, name="pad")


def _source(index: tirx.Expr, size: tirx.Expr, mode: str) -> tirx.Expr:
    """Return where in an axis of ``size`` a position outside it is read."""
    zero, one = int64(0), int64(1)
    if mode == "edge":
        return tirx.max(tirx.min(index, size - one), zero)
    if mode == "wrap":
        return tirx.floormod(index, tirx.max(size, one))
    period = tirx.max(int64(2) * (size - one), one)
    there = tirx.floormod(index, period)
    return tirx.Select(there < size, there, period - there)


def range_size(start: te.Tensor, limit: te.Tensor, delta: te.Tensor) -> te.Tensor:
    """Return how many numbers a range has, as a tensor of one element."""
    dtype = str(start.dtype)
    first, last, step = start(), limit(), delta()
    if "int" in dtype:
        forward = step > 0
        span = tirx.Select(forward, last - first, first - last)
        stride = tirx.max(tirx.Select(forward, step, -step), tirx.const(1, dtype))
        count = tirx.floordiv(int64(span) + int64(stride) - int64(1), int64(stride))
    else:
        wide = [tirx.Cast("float64", each) for each in (first, last, step)]
        count = int64(tirx.ceil((wide[1] - wide[0]) / wide[2]))
    return te.compute((1,), lambda _: tirx.max(count, int64(0)), name="range_size")


def numbers(start: te.Tensor, delta: te.Tensor, size: Sequence[tirx.Expr]) -> te.Tensor:
    """Return the numbers of a range."""
    dtype = str(start.dtype)
    return te.compute(list(size), lambda i: start() + tirx.Cast(dtype, i) * delta(), name="numbers")


def one_hot(indices: te.Tensor, values: te.Tensor, depth: Any, axis: int) -> te.Tensor:
    """Return ``values[1]`` where an index, which may count from the end, is met, else [0]."""
    (size,) = depth
    shape = list(indices.shape)
    shape.insert(axis, size)

    def element(*place: tirx.Expr) -> tirx.Expr:
        index = int64(indices(*place[:axis], *place[axis + 1 :]))
        index = tirx.Select(index < 0, index + int64(size), index)
        return tirx.Select(index.equal(int64(place[axis])), values[1], values[0])

    return te.compute(shape, element, name="one_hot")
