"""Evaluators of operators that pick elements by position."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from moonpoly.compiler.frontend.node.values import Value
from moonpoly.compiler.frontend.symbolic.registry import elements_of, evaluates

if TYPE_CHECKING:
    from moonpoly.compiler.frontend.graph.context import Context

_MAX_RANGE = 4096


@evaluates("Gather")
def _gather(ctx: Context) -> np.ndarray | None:
    elements, indices = elements_of(ctx, 0), ctx.constant(1)
    if elements is None or indices is None:
        return None
    axis = ctx.attrs.get("axis", 0)
    extent = elements.shape[axis]
    if ((indices < -extent) | (indices >= extent)).any():
        # The converter says which.
        return None
    return _as_array(np.take(elements, indices, axis=axis))


@evaluates("Slice")
def _slice(ctx: Context) -> np.ndarray | None:
    elements = elements_of(ctx, 0)
    if elements is None:
        return None
    if ctx.opset < 10:
        starts, ends = ctx.attrs["starts"], ctx.attrs["ends"]
        axes, steps = ctx.attrs.get("axes"), None
    else:
        given = [ctx.constant(index) for index in range(1, 5)]
        if any(ctx.has_input(i + 1) and value is None for i, value in enumerate(given)):
            return None
        starts, ends, axes, steps = (
            None if value is None else [int(item) for item in value] for value in given
        )
        if starts is None or ends is None:
            return None
    axes = range(len(starts)) if axes is None else axes
    steps = [1] * len(starts) if steps is None else steps
    picked = [slice(None)] * elements.ndim
    for axis, start, end, step in zip(axes, starts, ends, steps, strict=True):
        size = elements.shape[axis]
        # Python takes -1 for the last element where ONNX means one before the first.
        stop = None if step < 0 and end < -size else end
        picked[axis] = slice(start, stop, step)
    return elements[tuple(picked)]


@evaluates("ScatterND", "ScatterElements")
def _scatter(ctx: Context) -> np.ndarray | None:
    elements, indices, updates = elements_of(ctx, 0), ctx.constant(1), elements_of(ctx, 2)
    if elements is None or indices is None or updates is None:
        return None
    if ctx.attrs.get("reduction", "none") != "none":
        return None
    result = elements.copy()
    if ctx.op == "ScatterND":
        for position in np.ndindex(indices.shape[:-1]):
            result[tuple(indices[position])] = updates[position]
        return result
    axis = ctx.attrs.get("axis", 0) % elements.ndim
    for position in np.ndindex(indices.shape):
        target = (*position[:axis], int(indices[position]), *position[axis + 1 :])
        result[target] = updates[position]
    return result


@evaluates("Split")
def _split(ctx: Context) -> list[Value] | None:
    elements = elements_of(ctx, 0)
    if elements is None:
        return None
    axis = ctx.attrs.get("axis", 0)
    sizes = ctx.attrs.get("split")
    if ctx.has_input(1):
        given = ctx.constant(1)
        if given is None:
            return None
        sizes = given.tolist()
    if sizes is None:
        count = ctx.num_outputs
        part = -(-elements.shape[axis] // count)
        sizes = [part] * (count - 1) + [elements.shape[axis] - part * (count - 1)]
    parts = np.split(elements, np.cumsum(sizes[:-1]), axis=axis)
    return [Value.of_elements(part, ctx.dtype(0)) for part in parts]


@evaluates("Range")
def _range(ctx: Context) -> np.ndarray | None:
    bounds = [ctx.constant(index) for index in range(3)]
    if any(bound is None for bound in bounds):
        return None
    start, limit, step = (bound.item() for bound in bounds if bound is not None)
    if step == 0 or abs((limit - start) / step) > _MAX_RANGE:
        return None
    return np.arange(start, limit, step).astype(object)


def _as_array(picked: object) -> np.ndarray:
    if isinstance(picked, np.ndarray):
        return picked
    array = np.empty((), dtype=object)
    array[()] = picked
    return array
