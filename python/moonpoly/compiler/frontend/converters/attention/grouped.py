"""GroupQueryAttention of ONNX Runtime's domain: a cache filled as far as each sequence goes."""

from __future__ import annotations

import math

import tvm
from tvm import relax, te, tirx

from moonpoly.compiler.frontend.converters.attention.core import (
    Mask,
    cast,
    merge_heads,
    scores,
    softmax,
    split_heads,
    weigh,
)
from moonpoly.compiler.frontend.converters.attention.rotary import rotate
from moonpoly.compiler.frontend.converters.attention.standard import soft_cap
from moonpoly.compiler.frontend.converters.operand_shapes import same, sizes, with_sizes
from moonpoly.compiler.frontend.converters.registry import converts
from moonpoly.compiler.frontend.graph.context import Context
from moonpoly.compiler.frontend.node.values import Integer

_REFUSED_INPUTS = {12: "k_scale", 13: "v_scale"}
_REFUSED_ATTRIBUTES = {
    "qk_output": 0,
    "k_quant_type": "NONE",
    "v_quant_type": "NONE",
}


@converts("GroupQueryAttention", domain="com.microsoft")
def _group_query_attention(ctx: Context) -> list[relax.Expr | None]:
    _refuse(ctx)
    heads, key_heads = ctx.attrs["num_heads"], ctx.attrs["kv_num_heads"]
    query, key, value = _split(ctx, heads, key_heads)
    before = _cached(ctx, query)
    if ctx.attrs.get("do_rotary", 0):
        query, key = _rotate(ctx, query, before), _rotate(ctx, key, before)
    columns = _columns(ctx, query)
    key = _fill(ctx, ctx.input(3), key, before, columns)
    value = _fill(ctx, ctx.input(4), value, before, columns)

    dtype = ctx.dtype(query)
    size = sizes(ctx, query)[-1]
    if not isinstance(size, int):
        ctx.unsupported("the size of a head must be known")
    scale = ctx.attrs.get("scale", 0.0) or 1.0 / math.sqrt(size)
    values = scores(ctx, cast(ctx, query, "float32"), cast(ctx, key, "float32"), scale)
    cap = ctx.attrs.get("softcap", 0.0)
    if cap:
        values = soft_cap(ctx, values, cap)
    mask = Mask(ctx)
    bias = ctx.input(10)
    if bias is not None:
        mask.add(bias)
    window = ctx.attrs.get("local_window_size", -1)
    mask.window(_last(ctx, query, before), window - 1 if window > 0 else None, 0)
    weights = _weights(ctx, mask.apply(values))
    result = merge_heads(ctx, weigh(ctx, weights, cast(ctx, value, "float32")))
    return [cast(ctx, result, dtype), key, value][: max(1, ctx.num_outputs)]


def _weights(ctx: Context, values: relax.Expr) -> relax.Expr:
    """Return the softmax of the scores, beside one more of each head that nothing is read for."""
    sink = ctx.input(11)
    if sink is not None:
        heads = sizes(ctx, values)[1]
        sink = with_sizes(ctx, cast(ctx, sink, "float32"), [heads])
        sink = ctx.emit(relax.op.reshape(sink, [1, heads, 1, 1]))
    elif ctx.attrs.get("smooth_softmax", 0) > 0:
        sink = relax.const(0.0, "float32")
    else:
        return softmax(ctx, values)
    largest = ctx.emit(relax.op.maximum(relax.op.max(values, -1, keepdims=True), sink))
    powers = ctx.emit(relax.op.exp(relax.op.subtract(values, largest)))
    beside = ctx.emit(relax.op.exp(relax.op.subtract(sink, largest)))
    total = ctx.emit(relax.op.add(relax.op.sum(powers, -1, keepdims=True), beside))
    return ctx.emit(relax.op.divide(powers, total))


def _refuse(ctx: Context) -> None:
    for index, name in _REFUSED_INPUTS.items():
        if ctx.has_input(index):
            ctx.unsupported(f"{name} is given")
    for name, default in _REFUSED_ATTRIBUTES.items():
        if ctx.attrs.get(name, default) not in (default, -1):
            ctx.unsupported(f"{name} is {ctx.attrs[name]!r}")
    if not ctx.has_input(5) or not ctx.has_input(6):
        ctx.unsupported("seqlens_k or total_sequence_length is left out")


def _split(ctx: Context, heads: int, key_heads: int) -> list[relax.Expr]:
    """Return Q, K and V with their heads, also where they come packed in one."""
    query, key, value = ctx.input(0), ctx.input(1), ctx.input(2)
    assert query is not None, "the checker wants a query"
    if key is None or value is None:
        width = sizes(ctx, query)[-1]
        if not isinstance(width, int):
            ctx.unsupported("the size of a head must be known")
        size = width // (heads + 2 * key_heads)
        parts = relax.op.split(query, [heads * size, (heads + key_heads) * size], axis=2)
        parts = ctx.emit(parts)
        query, key, value = (ctx.emit(relax.TupleGetItem(parts, i)) for i in range(3))
    counts = (heads, key_heads, key_heads)
    return [split_heads(ctx, x, n) for x, n in zip((query, key, value), counts, strict=True)]


def _total(ctx: Context) -> Integer:
    """Return total_sequence_length, where need be as a symbol for what is in memory."""
    total = ctx.read_integers(6)
    if total is None or total.size != 1:
        ctx.unsupported("total_sequence_length must be one integer")
    number: Integer = total.flat[0]
    return number


def _columns(ctx: Context, query: relax.Expr) -> Integer:
    """Return how long the cache is afterwards: the sequence so far, or the buffer given."""
    columns = _total(ctx)
    if not isinstance(columns, int):
        columns = columns if str(columns.ty.dtype) == "int64" else tirx.Cast("int64", columns)
    if not ctx.has_input(3):
        return columns
    past = ctx.input(3)
    assert past is not None, "it is given"
    held = sizes(ctx, past)[2]
    rows = sizes(ctx, query)[2]
    if same(ctx, columns, held) or same(ctx, columns, held + rows):
        return columns
    if isinstance(columns, int) and isinstance(held, int):
        return max(columns, held)
    return ctx.symbols.simplify(tirx.max(columns, held))


def _cached(ctx: Context, query: relax.Expr) -> relax.Expr:
    """Return how many keys each sequence has in its cache: int64 (batch,)."""
    lengths = ctx.input(5)
    assert lengths is not None, "it is given"
    batch, _, rows, _ = sizes(ctx, query)
    total = _total(ctx)
    lengths = with_sizes(ctx, ctx.emit(relax.op.reshape(lengths, [batch])), [batch])

    def cached(lengths: te.Tensor, rows: Integer, total: Integer) -> te.Tensor:
        first = tirx.EQ(_int64(rows), _int64(total))

        def element(i: tvm.ir.Expr) -> tvm.ir.Expr:
            before = tirx.Cast("int64", lengths(i)) + 1 - rows
            return tirx.Select(first, tirx.IntImm("int64", 0), before)

        return te.compute(lengths.shape, element, name="cached_lengths")

    return ctx.call_te(cached, lengths, rows, total)


def _int64(value: Integer) -> tvm.ir.Expr:
    if isinstance(value, int):
        return tirx.IntImm("int64", value)
    return value if str(value.ty.dtype) == "int64" else tirx.Cast("int64", value)


def _last(ctx: Context, query: relax.Expr, before: relax.Expr) -> relax.Expr:
    """Return the number of keys that the last row of each sequence may see."""

    def valid(before: te.Tensor, rows: Integer) -> te.Tensor:
        return te.compute(before.shape, lambda i: before(i) + rows, name="valid_columns")

    return ctx.call_te(valid, before, sizes(ctx, query)[2])


def _rotate(ctx: Context, data: relax.Expr, before: relax.Expr) -> relax.Expr:
    cos, sin, positions = ctx.input(7), ctx.input(8), ctx.input(9)
    if cos is None or sin is None:
        ctx.unsupported("do_rotary without cos_cache and sin_cache")
    if positions is None:
        rows = sizes(ctx, data)[2]

        def place(before: te.Tensor, rows: Integer) -> te.Tensor:
            return te.compute([before.shape[0], rows], lambda b, i: before(b) + i, name="positions")

        positions = ctx.call_te(place, before, rows)
    interleaved = bool(ctx.attrs.get("rotary_interleaved", 0))
    half = sizes(ctx, cos)[-1]
    width = 2 * half if isinstance(half, int) else 0
    return rotate(ctx, data, cos, sin, positions, interleaved, width)


def _fill(
    ctx: Context, past: relax.Expr | None, new: relax.Expr, before: relax.Expr, columns: Integer
) -> relax.Expr:
    """Return what is cached with ``new`` behind it, sequence by sequence, and zeros behind that."""
    batch, heads, _, size = sizes(ctx, new)
    if past is not None:
        past = with_sizes(ctx, past, [batch, heads, sizes(ctx, past)[2], size])

    def fill(before: te.Tensor, new: te.Tensor, columns: Integer, *past: te.Tensor) -> te.Tensor:
        rows = new.shape[2]

        def element(
            b: tvm.ir.Expr, h: tvm.ir.Expr, column: tvm.ir.Expr, e: tvm.ir.Expr
        ) -> tvm.ir.Expr:
            row = column - before(b)
            value = tirx.Select(
                row < rows, new(b, h, _inside(row, rows), e), tirx.const(0, new.dtype)
            )
            if not past:
                return value
            old = past[0](b, h, _inside(column, past[0].shape[2]), e)
            return tirx.if_then_else(row < 0, old, value)

        shape = [new.shape[0], new.shape[1], columns, new.shape[3]]
        return te.compute(shape, element, name="fill_cache")

    operands = [] if past is None else [past]
    return ctx.call_te(fill, before, new, columns, *operands)


def _inside(index: tvm.ir.Expr, size: tvm.ir.Expr) -> tvm.ir.Expr:
    zero = tirx.IntImm("int64", 0)
    return tirx.max(tirx.min(index, size - 1), zero)
