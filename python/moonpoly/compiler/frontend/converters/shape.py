"""Operators that give a tensor another shape."""

from __future__ import annotations

from typing import Any

import numpy as np
from tvm import relax, te, tirx

from moonpoly.compiler.frontend.converters.registry import converts
from moonpoly.compiler.frontend.graph.context import Context
from moonpoly.compiler.frontend.graph.unify import broadcast_shapes, broadcast_to
from moonpoly.compiler.frontend.node.values import Integer, is_symbolic
from moonpoly.compiler.frontend.symbolic.elements import as_expr
from moonpoly.compiler.frontend.symbolic.factors import cancel


@converts("Shape")
def _shape(ctx: Context) -> None:
    """Refuse what has any rank; other shapes have been evaluated."""
    if ctx.rank(0) is None:
        ctx.unsupported("the rank of its operand depends on data")


@converts("Reshape")
def _reshape(ctx: Context) -> relax.Expr | None:
    if ctx.opset < 5:
        sizes = np.array(ctx.attrs["shape"], dtype=object)
    else:
        given = ctx.integers(1)
        if given is None:
            return _reshape_by_data(ctx)
        sizes = given
    shape = ctx.shape(0)
    if shape is None:
        return None
    target = _reshaped(ctx, shape, list(sizes), bool(ctx.attrs.get("allowzero", 0)))
    return reshape(ctx, ctx.input(0), target)


def _reshape_by_data(ctx: Context) -> relax.Expr | None:
    """Reshape to sizes that depend on data, in which 0 and -1 are resolved at run time."""
    shape, wanted = ctx.shape(0), ctx.shape(1)
    if shape is None or wanted is None or not isinstance(wanted[0], int):
        return None
    ty = relax.ShapeType(ndim=wanted[0])
    sizes = ctx.emit(
        relax.op.call_pure_packed(
            "moonpoly.op.reshape_dims",
            relax.ShapeExpr([as_expr(dim) for dim in shape]),
            ctx.input(1),
            relax.prim_value(int(ctx.attrs.get("allowzero", 0))),
            ty_args=ty,
        )
    )
    dims = [ctx.new_dim("reshape_dim") for _ in range(wanted[0])]
    ctx.bb.match_cast(sizes, relax.ShapeType(dims))
    return reshape(ctx, ctx.input(0), list(dims))


@converts("Flatten")
def _flatten(ctx: Context) -> relax.Expr | None:
    shape = ctx.shape(0)
    if shape is None:
        return None
    axis = ctx.attrs.get("axis", 1)
    # An axis of the rank itself is legal: all dimensions lie before it.
    axis = axis + len(shape) if axis < 0 else axis
    sizes = [ctx.symbols.product(shape[:axis]), ctx.symbols.product(shape[axis:])]
    return reshape(ctx, ctx.input(0), sizes)


@converts("Squeeze")
def _squeeze(ctx: Context) -> relax.Expr | None:
    shape = ctx.shape(0)
    axes = ctx.attrs.get("axes")
    if ctx.has_input(1):
        given = ctx.constant(1)
        if given is None:
            return None
        axes = [int(axis) for axis in given.reshape(-1)]
    if shape is None or axes is None:
        return None
    axes = [axis % len(shape) for axis in axes]
    for axis in axes:
        ctx.require_equal(shape[axis], 1)
    return reshape(ctx, ctx.input(0), [dim for i, dim in enumerate(shape) if i not in axes])


@converts("Unsqueeze")
def _unsqueeze(ctx: Context) -> relax.Expr | None:
    shape = ctx.shape(0)
    axes = ctx.constant(1) if ctx.has_input(1) else np.asarray(ctx.attrs.get("axes", []))
    if shape is None or axes is None:
        return None
    # Some write one axis as a scalar.
    places = {int(axis) % (len(shape) + axes.size) for axis in axes.reshape(-1)}
    rest = iter(shape)
    sizes = [1 if at in places else next(rest) for at in range(len(shape) + axes.size)]
    return reshape(ctx, ctx.input(0), sizes)


@converts("Expand")
def _expand(ctx: Context) -> relax.Expr | None:
    shape, wanted = ctx.shape(0), ctx.read_integers(1)
    if shape is None or wanted is None:
        return None
    # Some exporters write -1 for a dimension that is to stay.
    target = broadcast_shapes(ctx, [shape, [1 if _is(dim, -1) else dim for dim in wanted]])
    data = broadcast_to(ctx, ctx.input(0), target)
    if ctx.shape(data) == tuple(target):
        return data
    return relax.op.broadcast_to(data, relax.ShapeExpr([as_expr(dim) for dim in target]))


@converts("ConstantOfShape")
def _constant_of_shape(ctx: Context) -> relax.Expr | None:
    sizes = ctx.read_integers(0)
    if sizes is None:
        return None
    value = ctx.attrs.get("value", np.zeros(1, np.float32)).reshape(())
    shape = relax.ShapeExpr([as_expr(size) for size in sizes])
    return relax.op.full(shape, relax.const(np.asarray(value)), value.dtype.name)


@converts("EyeLike")
def _eye_like(ctx: Context) -> relax.Expr:
    shape, data = ctx.shape(0), ctx.input(0)
    if data is None or shape is None or len(shape) != 2:
        ctx.unsupported("its operand must be of rank 2")
    dtype = ctx.dtype(0)
    if "dtype" in ctx.attrs:
        dtype = ctx.element_type("dtype")
    return ctx.call_te(_diagonal, data, int(ctx.attrs.get("k", 0)), dtype)


def _diagonal(data: te.Tensor, k: int, dtype: str) -> te.Tensor:
    one, zero = tirx.const(1, dtype), tirx.const(0, dtype)
    return te.compute(
        data.shape, lambda i, j: tirx.Select((j - i).equal(k), one, zero), name="eye_like"
    )


@converts("Tile")
def _tile(ctx: Context) -> relax.Expr | None:
    shape, repeats = ctx.shape(0), ctx.read_integers(1)
    if ctx.opset < 6 or shape is None or repeats is None:
        return None
    sizes = [ctx.symbols.multiply(dim, n) for dim, n in zip(shape, repeats, strict=True)]
    if all(_is(repeat, 1) for repeat in repeats):
        return ctx.input(0)
    repeated = [not _is(repeat, 1) for repeat in repeats]
    return ctx.call_te(_tiled, ctx.input(0), [as_expr(size) for size in sizes], repeated)


def _tiled(data: te.Tensor, sizes: list[Any], repeated: list[bool]) -> te.Tensor:
    def read(*position: tirx.Var) -> Any:
        wrapped = [
            tirx.floormod(i, dim) if again else i
            for i, dim, again in zip(position, data.shape, repeated, strict=True)
        ]
        return data(*wrapped)

    return te.compute(sizes, read, name="tile")


def reshape(ctx: Context, data: relax.Expr | None, sizes: list[Integer]) -> relax.Expr:
    """Return ``data`` in another shape of as many elements."""
    assert data is not None, "the checker wants a first input"
    return relax.op.reshape(data, relax.ShapeExpr([as_expr(size) for size in sizes]))


def _reshaped(
    ctx: Context, shape: tuple[Integer, ...], sizes: list[Integer], allow_zero: bool
) -> list[Integer]:
    """Return the sizes that a Reshape asks for, with 0 and -1 resolved."""
    if not allow_zero:
        if any(_is(size, 0) for size in sizes[len(shape) :]):
            reason = f"shape {sizes} copies a dimension that rank {len(shape)} lacks"
            ctx.unsupported(f"{reason}; its operands are {ctx.operands()}")
        sizes = [shape[axis] if _is(size, 0) else size for axis, size in enumerate(sizes)]
    open_axes = [axis for axis, size in enumerate(sizes) if _is(size, -1)]
    if len(open_axes) > 1:
        ctx.unsupported(f"shape {sizes} leaves more than one dimension open")
    have, want = map(
        ctx.symbols.product, cancel(shape, [size for size in sizes if not _is(size, -1)])
    )
    if open_axes:
        if _is(want, 0):
            # Nothing says how long the open dimension is, if all the others hold nothing.
            sizes[open_axes[0]] = 0
            return sizes
        rest = ctx.symbols.divide(have, want)
        sizes[open_axes[0]] = rest
        want = ctx.symbols.multiply(rest, want)
    ctx.require_equal(have, want)
    return sizes


def _is(dim: Integer, number: int) -> bool:
    return not is_symbolic(dim) and dim == number
