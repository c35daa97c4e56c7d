"""Evaluators of operators that read shapes or move elements without changing them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from moonpoly.compiler.frontend.node.values import Value
from moonpoly.compiler.frontend.symbolic.registry import elements_of, evaluates, known_operands

if TYPE_CHECKING:
    from moonpoly.compiler.frontend.graph.context import Context


@evaluates("Shape")
def _shape(ctx: Context) -> Value | None:
    shape = ctx.shape(0)
    if shape is None:
        return None
    start, end = ctx.attrs.get("start", 0), ctx.attrs.get("end", len(shape))
    return Value.of_elements(_object_array(list(shape[start:end])), "int64")


@evaluates("Size")
def _size(ctx: Context) -> Value | None:
    shape = ctx.shape(0)
    if shape is None:
        return None
    size: object = 1
    for dim in shape:
        size = ctx.symbols.multiply(size, dim)
    return Value.of_elements(size, "int64")


@evaluates("Concat")
def _concat(ctx: Context) -> np.ndarray | None:
    operands = known_operands(ctx)
    return None if operands is None else np.concatenate(operands, axis=ctx.attrs["axis"])


@evaluates("Unsqueeze")
def _unsqueeze(ctx: Context) -> np.ndarray | None:
    elements, axes = elements_of(ctx, 0), _axes(ctx)
    if elements is None or axes is None:
        return None
    rank = elements.ndim + len(axes)
    return np.expand_dims(elements, tuple(axis % rank for axis in axes))


@evaluates("Squeeze")
def _squeeze(ctx: Context) -> np.ndarray | None:
    elements = elements_of(ctx, 0)
    if elements is None:
        return None
    axes = _axes(ctx)
    if axes is None:
        return None if ctx.has_input(1) else np.squeeze(elements)
    return np.squeeze(elements, tuple(axes))


@evaluates("Transpose")
def _transpose(ctx: Context) -> np.ndarray | None:
    elements = elements_of(ctx, 0)
    return None if elements is None else elements.transpose(ctx.attrs.get("perm"))


@evaluates("Flatten")
def _flatten(ctx: Context) -> np.ndarray | None:
    elements = elements_of(ctx, 0)
    if elements is None:
        return None
    axis = ctx.attrs.get("axis", 1)
    return elements.reshape(int(np.prod(elements.shape[:axis], dtype=int)), -1)


@evaluates("Reshape")
def _reshape(ctx: Context) -> np.ndarray | None:
    elements, shape = elements_of(ctx, 0), ctx.constant(1)
    if elements is None or shape is None:
        return None
    sizes = [int(size) for size in shape]
    if not ctx.attrs.get("allowzero", 0):
        sizes = [elements.shape[i] if size == 0 else size for i, size in enumerate(sizes)]
    return elements.reshape(sizes)


@evaluates("Expand")
def _expand(ctx: Context) -> np.ndarray | None:
    elements, shape = elements_of(ctx, 0), ctx.constant(1)
    if elements is None or shape is None or np.prod(shape, dtype=float) > 4096:
        return None
    sizes = tuple(int(size) for size in shape)
    return np.broadcast_to(elements, np.broadcast_shapes(elements.shape, sizes))


@evaluates("Tile")
def _tile(ctx: Context) -> np.ndarray | None:
    elements, repeats = elements_of(ctx, 0), ctx.constant(1)
    return None if elements is None or repeats is None else np.tile(elements, repeats.tolist())


@evaluates("ConstantOfShape")
def _constant_of_shape(ctx: Context) -> Value | None:
    shape = ctx.constant(0)
    if shape is None or np.prod(shape, dtype=float) > 4096:
        return None
    value = ctx.attrs.get("value", np.zeros(1, np.float32))
    return Value(array=np.full(tuple(int(size) for size in shape), value.reshape(())))


def _axes(ctx: Context) -> list[int] | None:
    """Return the axes of a squeeze, an attribute before opset 13 and an operand since."""
    if not ctx.has_input(1):
        return ctx.attrs.get("axes")
    axes = ctx.constant(1)
    return None if axes is None else [int(axis) for axis in axes.reshape(-1)]


def _object_array(items: list[object]) -> np.ndarray:
    array = np.empty(len(items), dtype=object)
    array[:] = items
    return array
