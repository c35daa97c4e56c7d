"""What every form of attention is made of: heads, scores, masks and weighted sums.

Products are ``relax.matmul``, so that they are polymerized. Query heads that share keys become
further rows of one product: nothing is repeated.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import tvm
from tvm import relax, te, tirx

from moonpoly.compiler.frontend.converters.operand_shapes import same, sizes, with_sizes
from moonpoly.compiler.frontend.graph.context import Context
from moonpoly.compiler.frontend.node.values import Integer

# (value, (batch, head, row, column), tensors) -> value
_Step = Callable[[tvm.ir.Expr, Sequence[tvm.ir.Expr], Sequence[te.Tensor]], tvm.ir.Expr]


def cast(ctx: Context, expr: relax.Expr, dtype: str) -> relax.Expr:
    """Return ``expr`` in another type."""
    return expr if ctx.dtype(expr) == dtype else ctx.emit(relax.op.astype(expr, dtype))


def split_heads(ctx: Context, data: relax.Expr, heads: int) -> relax.Expr:
    """Return (batch, length, heads * size) as (batch, heads, length, size)."""
    batch, length, width = sizes(ctx, data)
    if isinstance(width, int) and width % heads:
        ctx.unsupported(f"{width} elements can't be split into {heads} heads")
    split = ctx.emit(relax.op.reshape(data, [batch, length, heads, width // heads]))
    return ctx.emit(relax.op.permute_dims(split, [0, 2, 1, 3]))


def merge_heads(ctx: Context, data: relax.Expr) -> relax.Expr:
    """Return (batch, heads, length, size) as (batch, length, heads * size)."""
    batch, heads, length, size = sizes(ctx, data)
    turned = ctx.emit(relax.op.permute_dims(data, [0, 2, 1, 3]))
    return ctx.emit(relax.op.reshape(turned, [batch, length, heads * size]))


def append(ctx: Context, past: relax.Expr | None, data: relax.Expr) -> relax.Expr:
    """Return what is cached, followed along the third of four axes by what is new."""
    if past is None:
        return data
    own, cached = sizes(ctx, data), sizes(ctx, past)
    past = with_sizes(ctx, past, [own[0], own[1], cached[2], own[3]])
    return ctx.emit(relax.op.concat([past, data], axis=2))


def scores(ctx: Context, query: relax.Expr, key: relax.Expr, scale: float) -> relax.Expr:
    """Return scale * Q K^T as (batch, heads, rows, columns).

    Parameters
    ----------
    query
        (batch, heads, rows, size).
    key
        (batch, key heads, columns, size), where the key heads divide the heads.
    """
    batch, heads, rows, size = sizes(ctx, query)
    key = with_sizes(ctx, key, [batch, *sizes(ctx, key)[1:3], size])
    columns = sizes(ctx, key)[2]
    if scale != 1.0:
        query = ctx.emit(relax.op.multiply(query, relax.const(scale, ctx.dtype(query))))
    query, shared = _share(ctx, query, key)
    turned = ctx.emit(relax.op.permute_dims(key, [0, 1, 3, 2]))
    product = ctx.emit(relax.op.matmul(query, turned))
    return ctx.emit(relax.op.reshape(product, [batch, heads, rows, columns])) if shared else product


def weigh(ctx: Context, weights: relax.Expr, value: relax.Expr) -> relax.Expr:
    """Return the sums of V weighted by (batch, heads, rows, columns), by row.

    Parameters
    ----------
    value
        (batch, key heads, columns, size).
    """
    batch, heads, rows, columns = sizes(ctx, weights)
    value = with_sizes(ctx, value, [batch, sizes(ctx, value)[1], columns, sizes(ctx, value)[3]])
    weights, shared = _share(ctx, weights, value)
    product = ctx.emit(relax.op.matmul(weights, value))
    size = sizes(ctx, value)[3]
    return ctx.emit(relax.op.reshape(product, [batch, heads, rows, size])) if shared else product


def _share(ctx: Context, rows: relax.Expr, keys: relax.Expr) -> tuple[relax.Expr, bool]:
    """Return the heads of ``rows`` that share one of ``keys`` below one another."""
    batch, heads, length, size = sizes(ctx, rows)
    groups = sizes(ctx, keys)[1]
    if same(ctx, heads, groups):
        return rows, False
    if not isinstance(heads, int) or not isinstance(groups, int) or heads % groups:
        ctx.unsupported(f"{heads} query heads can't share {groups} key heads")
    shape = [batch, groups, heads // groups * length, size]
    return ctx.emit(relax.op.reshape(rows, shape)), True


def softmax(ctx: Context, values: relax.Expr) -> relax.Expr:
    """Return the softmax along the last axis; a row without any finite score becomes zeros."""
    return ctx.emit(relax.op.nn.softmax(values, axis=-1))


def zero_where_masked(ctx: Context, weights: relax.Expr, masked: relax.Expr) -> relax.Expr:
    """Return ``weights``, with zeros wherever the score in ``masked`` is minus infinity."""

    def select(weights: te.Tensor, masked: te.Tensor) -> te.Tensor:
        zero, lowest = tirx.const(0, weights.dtype), tirx.min_value(masked.dtype)
        return te.compute(
            weights.shape,
            lambda *at: tirx.Select(masked(*at) < lowest, zero, weights(*at)),
            name="zero_where_masked",
        )

    return ctx.call_te(select, weights, masked)


class Mask:
    """What is done to scores (batch, heads, rows, columns) before the softmax, in one pass."""

    def __init__(self, ctx: Context) -> None:
        self.ctx = ctx
        self._operands: list[relax.Expr | Integer] = []
        self._steps: list[_Step] = []

    @property
    def is_empty(self) -> bool:
        """Whether scores stay as they are."""
        return not self._steps

    def add(self, bias: relax.Expr, short: bool = False) -> None:
        """Add a tensor that broadcasts; ``short``: its last axis may end early, then hides."""
        place = self._operand(bias)

        def step(
            value: tvm.ir.Expr, at: Sequence[tvm.ir.Expr], operands: Sequence[te.Tensor]
        ) -> tvm.ir.Expr:
            operand = operands[place]
            total = value + tirx.Cast(value.ty.dtype, operand(*_index(operand, at)))
            return _hide_beyond(total, operand, at, _infinity(value)) if short else total

        self._steps.append(step)

    def keep(
        self, mask: relax.Expr, fill: float | None, threshold: bool = False, short: bool = False
    ) -> None:
        """Hide where a tensor that broadcasts is false, or, with ``threshold``, not above zero.

        ``fill`` is added there; None stands for a score of minus infinity.
        """
        place = self._operand(mask)

        def step(
            value: tvm.ir.Expr, at: Sequence[tvm.ir.Expr], operands: Sequence[te.Tensor]
        ) -> tvm.ir.Expr:
            operand = operands[place]
            element = operand(*_index(operand, at))
            if str(operand.dtype) != "bool":
                zero = tirx.const(0, operand.dtype)
                element = element > zero if threshold else tirx.NE(element, zero)
            hidden = _infinity(value) if fill is None else value + _number(fill, value)
            kept = tirx.Select(element, value, hidden)
            return _hide_beyond(kept, operand, at, _infinity(value)) if short else kept

        self._steps.append(step)

    def window(
        self,
        valid: relax.Expr | Integer | None,
        left: int | None,
        right: int | None,
        fill: float | None = None,
    ) -> None:
        """Hide columns further than ``left`` before or ``right`` after where a row stands.

        Parameters
        ----------
        valid
            The last row stands at the last of so many columns: a tensor (batch,) of integers, or
            one number for all; None for all columns.
        left, right
            None where the side is open.
        fill
            The score of what is hidden; None stands for minus infinity.
        """
        place = None if valid is None else self._operand(valid)

        def step(
            value: tvm.ir.Expr, at: Sequence[tvm.ir.Expr], operands: Sequence[te.Tensor]
        ) -> tvm.ir.Expr:
            batch, _, row, column = at
            rows, columns = operands[-1].shape[2:]
            count = columns if place is None else operands[place]
            if isinstance(count, te.Tensor):
                count = tirx.Cast("int64", count(*_index(count, [batch])))
            position = row + (count - rows)
            hidden = _infinity(value) if fill is None else _number(fill, value)
            if right is not None:
                value = tirx.Select(column <= position + right, value, hidden)
            if left is not None:
                value = tirx.Select(column >= position - left, value, hidden)
            return value

        self._steps.append(step)

    def keep_between(self, bounds: relax.Expr, fill: float | None) -> None:
        """Hide the columns of each sequence from its end on, and those before its beginning.

        Parameters
        ----------
        bounds
            Integers: (batch,), the ends; or (2 batch,), the ends and then the beginnings.
        fill
            As in :meth:`keep`.
        """
        place = self._operand(bounds)

        def step(
            value: tvm.ir.Expr, at: Sequence[tvm.ir.Expr], operands: Sequence[te.Tensor]
        ) -> tvm.ir.Expr:
            (given,), batch = operands[place].shape, operands[-1].shape[0]

            def bound(index: tvm.ir.Expr) -> tvm.ir.Expr:
                return tirx.Cast("int64", operands[place](tirx.min(index, given - 1)))

            first = tirx.Select(given > batch, bound(batch + at[0]), tirx.IntImm("int64", 0))
            hidden = _infinity(value) if fill is None else value + _number(fill, value)
            kept = tirx.Select(at[3] < bound(at[0]), value, hidden)
            return tirx.Select(at[3] >= first, kept, hidden)

        self._steps.append(step)

    def apply(self, values: relax.Expr) -> relax.Expr:
        """Return the scores with all steps done, in the order in which they were given."""
        if self.is_empty:
            return values
        steps = self._steps

        def mask_scores(*operands: te.Tensor) -> te.Tensor:
            given = operands[-1]

            def element(*at: tvm.ir.Expr) -> tvm.ir.Expr:
                value = given(*at)
                for step in steps:
                    value = step(value, at, operands)
                return value

            return te.compute(given.shape, element, name="mask_scores")

        return self.ctx.call_te(mask_scores, *self._operands, values)

    def _operand(self, expr: relax.Expr | Integer) -> int:
        if not isinstance(expr, int) and not tvm.ir.is_prim_expr(expr):
            sizes(self.ctx, expr)
        self._operands.append(expr)
        return len(self._operands) - 1


def _index(operand: te.Tensor, at: Sequence[tvm.ir.Expr]) -> list[tvm.ir.Expr]:
    """Return where the element of a tensor that broadcasts is, never outside of it."""
    index: list[tvm.ir.Expr] = []
    for size, place in zip(operand.shape, at[len(at) - len(operand.shape) :], strict=True):
        if isinstance(size, tirx.IntImm):
            index.append(tirx.IntImm("int64", 0) if int(size) == 1 else tirx.min(place, size - 1))
        else:
            index.append(tirx.min(place, size - 1))
    return index


def _hide_beyond(
    value: tvm.ir.Expr, operand: te.Tensor, at: Sequence[tvm.ir.Expr], hidden: tvm.ir.Expr
) -> tvm.ir.Expr:
    return tirx.Select(at[-1] < operand.shape[-1], value, hidden)


def _infinity(value: tvm.ir.Expr) -> tvm.ir.Expr:
    return _number(-float("inf"), value)


def _number(number: float, value: tvm.ir.Expr) -> tvm.ir.Expr:
    return tirx.const(number, value.ty.dtype)
