"""Rotary position embeddings: pairs of elements turned by an angle that grows with the position."""

from __future__ import annotations

import tvm
from tvm import relax, te, tirx

from moonpoly.compiler.frontend.converters.attention.core import merge_heads, split_heads
from moonpoly.compiler.frontend.converters.operand_shapes import sizes
from moonpoly.compiler.frontend.converters.registry import converts
from moonpoly.compiler.frontend.graph.context import Context


def rotate(
    ctx: Context,
    data: relax.Expr,
    cos: relax.Expr,
    sin: relax.Expr,
    positions: relax.Expr | None,
    interleaved: bool,
    width: int,
) -> relax.Expr:
    """Return (batch, heads, length, size) with the first ``width`` elements turned.

    Parameters
    ----------
    cos, sin
        (positions, width / 2), or, without ``positions``, (batch, length, width / 2).
    positions
        Integers: (batch, length), or one element, the position of the first row of all.
    interleaved
        Pairs are neighbours; otherwise they are half of ``width`` apart.
    width
        0 for all elements.
    """
    size = sizes(ctx, data)[-1]
    if not isinstance(size, int):
        ctx.unsupported("the size of a head must be known")
    width = width or size
    half = width // 2

    def angle(
        table: te.Tensor,
        where: te.Tensor | None,
        batch: tvm.ir.Expr,
        row: tvm.ir.Expr,
        i: tvm.ir.Expr,
    ) -> tvm.ir.Expr:
        if where is None:
            return table(_at_most(batch, table.shape[0]), row, i)
        if len(where.shape) == 2:
            place = where(_at_most(batch, where.shape[0]), _at_most(row, where.shape[1]))
        else:
            place = where(*[tirx.IntImm("int64", 0)] * len(where.shape)) + tirx.Cast(
                where.dtype, row
            )
        # A position outside of the table would read what isn't there.
        low = tirx.max(tirx.Cast("int64", place), tirx.IntImm("int64", 0))
        return table(_at_most(low, table.shape[0]), i)

    def rotary(*operands: te.Tensor) -> te.Tensor:
        x, cosines, sines = operands[:3]
        where = operands[3] if len(operands) > 3 else None

        def element(
            batch: tvm.ir.Expr, head: tvm.ir.Expr, row: tvm.ir.Expr, e: tvm.ir.Expr
        ) -> tvm.ir.Expr:
            if interleaved:
                i, is_first = e // 2, tirx.EQ(e % 2, tirx.IntImm("int64", 0))
                partner = tirx.Select(is_first, e + 1, e - 1)
            else:
                is_first = e < half
                i = tirx.Select(is_first, e, e - half)
                partner = tirx.Select(is_first, e + half, e - half)
            i = _at_most(i, half)
            partner = _at_most(partner, size)
            own = x(batch, head, row, e)
            other = x(batch, head, row, partner)
            turn = other * angle(sines, where, batch, row, i)
            kept = own * angle(cosines, where, batch, row, i)
            turned = tirx.Select(is_first, kept - turn, kept + turn)
            return turned if width == size else tirx.Select(e < width, turned, own)

        return te.compute(x.shape, element, name="rotary_embedding")

    operands = [data, cos, sin] if positions is None else [data, cos, sin, positions]
    return ctx.call_te(rotary, *operands)


def _at_most(index: tvm.ir.Expr, size: tvm.ir.Expr | int) -> tvm.ir.Expr:
    return tirx.min(index, size - 1)


@converts("RotaryEmbedding")
def _rotary_embedding(ctx: Context) -> relax.Expr:
    return _rotary(ctx, ctx.input(1), ctx.input(2), ctx.input(3))


@converts("RotaryEmbedding", domain="com.microsoft")
def _contrib_rotary_embedding(ctx: Context) -> relax.Expr:
    if ctx.attrs.get("is_packed_batching", 0):
        ctx.unsupported("is_packed_batching")
    scale = ctx.attrs.get("scale", 1.0)
    if scale != 1.0:
        ctx.unsupported(f"a scale of {scale}")
    return _rotary(ctx, ctx.input(2), ctx.input(3), ctx.input(1))


def _rotary(
    ctx: Context, cos: relax.Expr | None, sin: relax.Expr | None, positions: relax.Expr | None
) -> relax.Expr:
    data = ctx.input(0)
    assert data is not None, "the checker wants a first input"
    assert cos is not None, "the checker wants the cosines"
    assert sin is not None, "the checker wants the sines"
    rank = ctx.rank(data)
    width = ctx.attrs.get("rotary_embedding_dim", 0)
    heads = ctx.attrs.get("num_heads", 0)
    if rank == 3:
        if not heads and not width:
            heads = _heads_by_table(ctx, data, cos)
        if not heads:
            ctx.unsupported("num_heads must be given for an input of three dimensions")
        data = split_heads(ctx, data, heads)
    turned = rotate(ctx, data, cos, sin, positions, bool(ctx.attrs.get("interleaved", 0)), width)
    return merge_heads(ctx, turned) if rank == 3 else turned


def _heads_by_table(ctx: Context, data: relax.Expr, cos: relax.Expr) -> int:
    """Return into how many heads an input falls whose tables turn whole heads."""
    half, width = sizes(ctx, cos)[-1], sizes(ctx, data)[-1]
    if not isinstance(half, int) or not isinstance(width, int):
        ctx.unsupported("the size of a head must be known")
    return width // (2 * half)
