"""Indices that are held against the axes that they are of, as early as they are known."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import tvm
from tvm import relax

from moonpoly.compiler.frontend.converters.packed_call import call_packed
from moonpoly.compiler.frontend.converters.sizes import known_shape
from moonpoly.compiler.frontend.graph.context import Context
from moonpoly.compiler.frontend.node.operand_types import wrong_type
from moonpoly.compiler.frontend.node.values import Integer, Value, is_symbolic
from moonpoly.compiler.frontend.symbolic.elements import as_expr

# More are checked when the model runs: each is proven by itself.
_MAX_PROOFS = 16


def checked_indices(
    ctx: Context, indices: int | relax.Expr, extents: Sequence[Integer]
) -> relax.Expr:
    """Return indices as int64, counted from the front.

    One beyond its axis is refused: at once if it is known, else when the model runs, by an error
    that names the node.

    Parameters
    ----------
    indices
        An operand's number, or an expression, of int32 or int64.
    extents
        Of the axis that all indices are of; or of the axes that those along the last axis are of.
    """
    if isinstance(indices, int) and ctx.dtype(indices) not in ("int32", "int64"):
        ctx.unsupported(wrong_type(ctx) or f"indices of {ctx.dtype(indices)} are not supported")
    known = _known(ctx, indices, extents) if isinstance(indices, int) else None
    if known is not None:
        return ctx.walk.tensor(known)
    operand = ctx.input(indices) if isinstance(indices, int) else indices
    shape = relax.ShapeExpr([as_expr(extent) for extent in extents])
    label = tvm.ir.StringImm(f"node {ctx.name!r}")
    sizes = known_shape(ctx, indices)
    (checked,) = call_packed(
        ctx, "moonpoly.op.checked_indices", [operand, shape, label], [sizes], ["int64"]
    )
    return checked


def _known(ctx: Context, operand: int, extents: Sequence[Integer]) -> Value | None:
    """Return the indices if they are known to be within their axes at all sizes."""
    array = ctx.constant(operand)
    if array is not None and not any(is_symbolic(extent) for extent in extents):
        return Value(array=_within(ctx, array, extents))
    if array is not None and array.size > _MAX_PROOFS:
        return None
    elements = ctx.integers(operand)
    if elements is None or elements.size > _MAX_PROOFS:
        return None
    proven = _prove(ctx, elements, extents)
    return None if proven is None else Value.of_elements(proven, "int64")


def _within(ctx: Context, array: np.ndarray, extents: Sequence[Integer]) -> np.ndarray:
    sizes = np.array(extents, np.int64).reshape([-1] if len(extents) > 1 else [])
    wrong = np.argwhere((array < -sizes) | (array >= sizes))
    if len(wrong):
        at = tuple(wrong[0])
        extent = extents[at[-1] if len(extents) > 1 else 0]
        ctx.unsupported(f"it is given index {array[at]} of an axis of {extent}")
    return np.where(array < 0, array + sizes, array).astype(np.int64)


def _prove(ctx: Context, indices: np.ndarray, extents: Sequence[Integer]) -> np.ndarray | None:
    """Return indices counted from the front, or None where one may be beyond its axis."""
    result = np.empty(indices.shape, dtype=object)
    for at, index in np.ndenumerate(indices):
        extent = extents[at[-1] if len(extents) > 1 else 0]
        if ctx.symbols.proves(index < 0):
            index = ctx.symbols.add(index, extent)
        beyond = ctx.symbols.subtract(extent, index)
        if not ctx.symbols.proves(index >= 0) or not ctx.symbols.proves(beyond > 0):
            return None
        result[at] = index
    return result
