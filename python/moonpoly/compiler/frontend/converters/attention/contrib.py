"""Attention and MultiHeadAttention of ONNX Runtime's domain."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from tvm import relax

from moonpoly.compiler.frontend.converters.attention.core import (
    Mask,
    append,
    cast,
    merge_heads,
    scores,
    softmax,
    split_heads,
    weigh,
)
from moonpoly.compiler.frontend.converters.operand_shapes import same, sizes, with_sizes
from moonpoly.compiler.frontend.converters.registry import converts
from moonpoly.compiler.frontend.graph.context import Context
from moonpoly.compiler.frontend.node.values import Integer


@dataclass
class _Operands:
    """Q, K and V as (batch, heads, length, size), and what is added to or hides the scores."""

    query: relax.Expr
    key: relax.Expr
    value: relax.Expr
    mask: relax.Expr | None
    bias: relax.Expr | None
    cached: Integer = 0


@converts("Attention", domain="com.microsoft")
def _attention(ctx: Context) -> list[relax.Expr | None]:
    if ctx.has_input(6):
        ctx.unsupported("past_sequence_length, which comes with a shared buffer")
    data, weight, bias = (ctx.input(index) for index in range(3))
    if data is None or weight is None:
        ctx.unsupported("the input or the weights are left out")
    product = ctx.emit(relax.op.matmul(data, weight))
    if bias is not None:
        product = ctx.emit(relax.op.add(product, bias))
    return attend_projected(ctx, product, ctx.input(3), ctx.input(4), ctx.input(5))


def attend_projected(
    ctx: Context,
    projected: relax.Expr,
    mask: relax.Expr | None,
    past: relax.Expr | None,
    bias: relax.Expr | None,
) -> list[relax.Expr | None]:
    """Return the results of a node with the attributes of Attention.

    Parameters
    ----------
    projected
        Q, K and V side by side: (batch, length, widths).
    mask
        As :func:`hide` takes it.
    past
        (2, batch, heads, length, size).
    bias
        Added to the scores.
    """
    for name in ("do_rotary", "past_present_share_buffer"):
        if ctx.attrs.get(name, 0):
            ctx.unsupported(name)
    parts = _cut(ctx, projected, _widths(ctx, projected))
    query, key, value = (split_heads(ctx, part, ctx.attrs["num_heads"]) for part in parts)
    if past is not None:
        key = append(ctx, _half(ctx, past, 0), key)
        value = append(ctx, _half(ctx, past, 1), value)
    cached = 0 if past is None else sizes(ctx, past)[3]
    result = _attend(ctx, _Operands(query, key, value, mask, bias, cached))
    present = None
    if ctx.wants(1):
        halves = [ctx.emit(relax.op.expand_dims(part, [0])) for part in (key, value)]
        present = ctx.emit(relax.op.concat(halves, axis=0))
    return [result, present][: max(1, ctx.num_outputs)]


def _widths(ctx: Context, projected: relax.Expr) -> Sequence[int]:
    """Return the sizes of Q, K and V."""
    widths: Sequence[int] | None = ctx.attrs.get("qkv_hidden_sizes")
    if widths is not None:
        return widths
    width = sizes(ctx, projected)[-1]
    if not isinstance(width, int):
        ctx.unsupported("the weights' size must be known")
    return [width // 3] * 3


def _cut(ctx: Context, data: relax.Expr, widths: Sequence[int]) -> list[relax.Expr]:
    """Cut the last axis into parts of ``widths``."""
    ends = [sum(widths[: i + 1]) for i in range(len(widths) - 1)]
    axis = len(sizes(ctx, data)) - 1
    parts = ctx.emit(relax.op.split(data, ends, axis=axis))
    return [ctx.emit(relax.TupleGetItem(parts, i)) for i in range(len(widths))]


def _half(ctx: Context, past: relax.Expr, index: int) -> relax.Expr:
    return ctx.emit(relax.op.take(past, relax.const(index, "int64"), axis=0))


@converts("MultiHeadAttention", domain="com.microsoft")
def _multi_head_attention(ctx: Context) -> list[relax.Expr | None]:
    for index, name in ((8, "past_sequence_length"), (9, "cache_indirection")):
        if ctx.has_input(index):
            ctx.unsupported(f"{name}, which comes with a shared buffer")
    query, key, value = _query_key_value(ctx, ctx.attrs["num_heads"])
    past = ctx.input(6)
    cached = 0 if past is None else sizes(ctx, past)[2]
    key, value = append(ctx, past, key), append(ctx, ctx.input(7), value)
    operands = _Operands(query, key, value, ctx.input(4), ctx.input(5), cached)
    if ctx.wants(3):
        ctx.unsupported("the scores are wanted as a result")
    return [_attend(ctx, operands), key, value][: max(1, ctx.num_outputs)]


def _query_key_value(ctx: Context, heads: int) -> list[relax.Expr]:
    """Return Q, K and V with heads, whichever way they come: apart, or packed in five axes."""
    query, key, value, bias = (ctx.input(index) for index in range(4))
    if query is None:
        ctx.unsupported("the query is left out")
    if ctx.rank(query) == 5:
        # (batch, length, heads, 3, size)
        return [_unpack(ctx, query, i) for i in range(3)]
    if key is None:
        ctx.unsupported("the key is left out, the query isn't packed")
    biases: list[relax.Expr | None] = [None, None, None]
    if ctx.rank(key) == 5:
        return [split_heads(ctx, query, heads), _unpack(ctx, key, 0), _unpack(ctx, key, 1)]
    if value is None:
        ctx.unsupported("the value is left out, the key isn't packed")
    if bias is not None:
        widths = [sizes(ctx, part) for part in (query, key, value)]
        size = [_width(ctx, shape, heads) for shape in widths]
        biases = list(_cut(ctx, bias, size))
    return [
        _biased_heads(ctx, part, own, heads)
        for part, own in zip((query, key, value), biases, strict=True)
    ]


def _width(ctx: Context, shape: Sequence[Integer], heads: int) -> int:
    width = shape[-1] if len(shape) == 3 else heads * shape[-1]
    if not isinstance(width, int):
        ctx.unsupported("the size of a head must be known")
    return width


def _biased_heads(
    ctx: Context, data: relax.Expr, bias: relax.Expr | None, heads: int
) -> relax.Expr:
    if ctx.rank(data) == 4:
        # Keys and values of another sequence come with their heads, after their bias.
        return data
    return split_heads(ctx, data if bias is None else ctx.emit(relax.op.add(data, bias)), heads)


def _unpack(ctx: Context, packed: relax.Expr, index: int) -> relax.Expr:
    """Return part ``index`` of (batch, length, heads, parts, size), with the heads in front."""
    part = ctx.emit(relax.op.take(packed, relax.const(index, "int64"), axis=3))
    return ctx.emit(relax.op.permute_dims(part, [0, 2, 1, 3]))


def _attend(ctx: Context, operands: _Operands) -> relax.Expr:
    """Return softmax(scale Q K^T + mask + bias) V as (batch, length, heads * size)."""
    dtype = ctx.dtype(operands.query)
    query, key, value = (
        cast(ctx, part, "float32") for part in (operands.query, operands.key, operands.value)
    )
    size = sizes(ctx, query)[-1]
    if not isinstance(size, int):
        ctx.unsupported("the size of a head must be known")
    scale = ctx.attrs.get("scale", 0.0) or 1.0 / math.sqrt(size)
    values = scores(ctx, query, key, scale)
    mask = Mask(ctx)
    if operands.mask is not None:
        hide(ctx, mask, operands.mask, sizes(ctx, values))
    if operands.bias is not None:
        mask.add(operands.bias)
    if ctx.attrs.get("unidirectional", 0):
        # The first row stands behind what is cached, however many keys there are.
        rows = sizes(ctx, query)[2]
        mask.window(ctx.symbols.add(rows, operands.cached), None, 0)
    weights = softmax(ctx, mask.apply(values))
    return cast(ctx, merge_heads(ctx, weigh(ctx, weights, value)), dtype)


def hide(ctx: Context, mask: Mask, given: relax.Expr, shape: Sequence[Integer]) -> None:
    """Hide what a mask of one of ONNX Runtime's forms says.

    Parameters
    ----------
    given
        (batch, columns) or (batch, rows, columns) of zeros and ones; or (batch,), the columns that
        count; or (2 batch,), followed by the first that counts.
    shape
        Of the scores: (batch, heads, rows, columns).
    """
    fill = ctx.attrs.get("mask_filter_value", -10000.0)
    batch, _, rows, columns = shape
    own = sizes(ctx, given)
    if len(own) == 2:
        given = with_sizes(ctx, given, [batch, columns])
        wide = ctx.emit(relax.op.reshape(given, [batch, 1, 1, columns]))
        mask.keep(wide, fill, threshold=True)
    elif len(own) == 3:
        given = with_sizes(ctx, given, [batch, rows, columns])
        wide = ctx.emit(relax.op.reshape(given, [batch, 1, rows, columns]))
        mask.keep(wide, fill, threshold=True)
    elif len(own) == 1 and not same(ctx, own[0], 3 * batch + 2):
        mask.keep_between(given, fill)
    else:
        ctx.unsupported(f"a mask of shape {tuple(map(str, own))}")
