"""Sizes of operands: what is known, what must be equal, and how a matrix product sees them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tvm import relax

from moonpoly.compiler.frontend.graph.context import Context
from moonpoly.compiler.frontend.node.values import Integer


@dataclass(frozen=True)
class MatrixPair:
    """Operands of a product that NumPy's matmul would take, in the form that kernels take.

    Parameters
    ----------
    left
        (..., m, k).
    right
        (k, n), or (..., k, n) with the leading dimensions of ``left``.
    shape
        Of the product: (..., m, n).
    final
        Shape of the result, without the dimensions that a vector operand was given.
    """

    ctx: Context
    left: relax.Expr
    right: relax.Expr
    shape: tuple[Integer, ...]
    final: tuple[Integer, ...]

    def restore(self, product: relax.Expr) -> relax.Expr:
        """Return the product in the shape of the result."""
        if len(self.final) == len(self.shape):
            return product
        return self.ctx.emit(relax.op.reshape(product, self.final))


def as_matrices(ctx: Context, left: relax.Expr, right: relax.Expr) -> MatrixPair:
    """Give vectors a second dimension, and operands of a batch equal leading dimensions."""
    a, b = sizes(ctx, left), sizes(ctx, right)
    if not a or not b:
        ctx.unsupported("a scalar has no matrix product")
    drop_row, drop_column = len(a) == 1, len(b) == 1
    if drop_row:
        a = (1, *a)
        left = ctx.emit(relax.op.reshape(left, a))
    if drop_column:
        b = (*b, 1)
        right = ctx.emit(relax.op.reshape(right, b))
    ctx.require_equal(a[-1], b[-2])
    leading: tuple[Integer, ...] = a[:-2]
    if len(b) > 2:
        leading = broadcast(ctx, a[:-2], b[:-2])
        left = _broadcast_to(ctx, left, a, (*leading, *a[-2:]))
        right = _broadcast_to(ctx, right, b, (*leading, *b[-2:]))
    shape = (*leading, a[-2], b[-1])
    final = list(shape)
    if drop_column:
        final.pop()
    if drop_row:
        del final[len(leading)]
    return MatrixPair(ctx, left, right, shape, tuple(final))


def sizes(ctx: Context, expr: relax.Expr) -> tuple[Integer, ...]:
    """Return the sizes of ``expr``, which must not depend on data."""
    shape = ctx.shape(expr)
    if shape is None:
        ctx.unsupported("the shape of an operand depends on data")
    return shape


def same(ctx: Context, left: Integer, right: Integer) -> bool:
    """Return whether two sizes are proven equal."""
    return bool(ctx.symbols.equal(left, right))


def with_sizes(ctx: Context, expr: relax.Expr, wanted: Sequence[Integer]) -> relax.Expr:
    """Return ``expr`` with sizes that it must have, checked at run time where not proven."""
    given = sizes(ctx, expr)
    if len(given) != len(wanted):
        ctx.unsupported(f"an operand has {len(given)} dimensions where {len(wanted)} are due")
    if all(same(ctx, *pair) for pair in zip(given, wanted, strict=True)):
        return expr
    for one, other in zip(given, wanted, strict=True):
        ctx.require_equal(one, other)
    return ctx.cast_shape(expr, wanted)


def broadcast(
    ctx: Context, left: Sequence[Integer], right: Sequence[Integer]
) -> tuple[Integer, ...]:
    """Return the sizes of two operands that are broadcast; unknown ones must be equal."""
    rank = max(len(left), len(right))
    padded = [[*[1] * (rank - len(dims)), *dims] for dims in (left, right)]
    result: list[Integer] = []
    for one, other in zip(*padded, strict=True):
        if isinstance(one, int) and one == 1:
            result.append(other)
        elif isinstance(other, int) and other == 1:
            result.append(one)
        else:
            ctx.require_equal(one, other)
            result.append(one)
    return tuple(result)


def _broadcast_to(
    ctx: Context, expr: relax.Expr, shape: Sequence[Integer], target: Sequence[Integer]
) -> relax.Expr:
    if len(shape) == len(target) and all(
        same(ctx, *pair) for pair in zip(shape, target, strict=True)
    ):
        return expr
    return ctx.emit(relax.op.broadcast_to(expr, target))
