"""Attention of the standard domain, with its caches, masks and windows."""

from __future__ import annotations

import math

import onnx
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
    zero_where_masked,
)
from moonpoly.compiler.frontend.converters.operand_shapes import sizes
from moonpoly.compiler.frontend.converters.registry import converts
from moonpoly.compiler.frontend.graph.context import Context

# What the fourth result is: the scores, those after the soft cap, those with the mask, the weights.
_RAW, _CAPPED, _MASKED, _WEIGHTS = range(4)


@converts("Attention")
def _attention(ctx: Context) -> list[relax.Expr | None]:
    dtype = ctx.dtype(0)
    # Half precision would lose digits in the sums, and its products wouldn't be polymerized.
    compute = "float64" if dtype == "float64" else "float32"
    query, key, value = (_heads(ctx, index, compute) for index in range(3))
    past_key, past_value = (_cast_operand(ctx, index, compute) for index in (4, 5))
    if (past_key is None) != (past_value is None):
        ctx.unsupported("past_key and past_value must be given together")
    present_key, present_value = append(ctx, past_key, key), append(ctx, past_value, value)
    scale = ctx.attrs.get("scale", 1.0 / math.sqrt(_head_size(ctx, query)))
    values = scores(ctx, query, present_key, scale)
    shown = {_RAW: values}
    cap = ctx.attrs.get("softcap", 0.0)
    if cap:
        values = soft_cap(ctx, values, cap)
    shown[_CAPPED] = values
    mask, may_hide_rows = _mask(ctx, query, past_key)
    values = shown[_MASKED] = mask.apply(values)
    precision = ctx.attrs.get("softmax_precision", onnx.TensorProto.FLOAT)
    if precision == onnx.TensorProto.DOUBLE:
        values = cast(ctx, values, "float64")
    weights = softmax(ctx, values)
    if may_hide_rows:
        weights = zero_where_masked(ctx, weights, values)
    weights = shown[_WEIGHTS] = cast(ctx, weights, compute)
    result = weigh(ctx, weights, present_value)
    if ctx.rank(0) == 3:
        result = merge_heads(ctx, result)
    mode = ctx.attrs.get("qk_matmul_output_mode", _RAW)
    if mode not in shown:
        ctx.unsupported(f"qk_matmul_output_mode is {mode}; {_RAW} to {_WEIGHTS} are known")
    made = [result, present_key, present_value, shown[mode]]
    # What the node doesn't name isn't turned back.
    return [cast(ctx, part, dtype) if ctx.wants(i) else None for i, part in enumerate(made)][
        : max(1, ctx.num_outputs)
    ]


def soft_cap(ctx: Context, values: relax.Expr, cap: float) -> relax.Expr:
    """Return cap * tanh(values / cap)."""
    factor = relax.const(cap, ctx.dtype(values))
    bounded = ctx.emit(relax.op.tanh(ctx.emit(relax.op.divide(values, factor))))
    return ctx.emit(relax.op.multiply(bounded, factor))


def _cast_operand(ctx: Context, index: int, dtype: str) -> relax.Expr | None:
    operand = ctx.input(index)
    return None if operand is None else cast(ctx, operand, dtype)


def _heads(ctx: Context, index: int, dtype: str) -> relax.Expr:
    """Return Q, K or V as (batch, heads, length, size) of ``dtype``."""
    data = _cast_operand(ctx, index, dtype)
    assert data is not None, "the checker wants Q, K and V"
    if ctx.rank(data) == 4:
        return data
    name = "q_num_heads" if index == 0 else "kv_num_heads"
    if ctx.rank(data) != 3 or name not in ctx.attrs:
        ctx.unsupported(f"an input must have 4 dimensions, or 3 with {name} given")
    return split_heads(ctx, data, ctx.attrs[name])


def _head_size(ctx: Context, query: relax.Expr) -> int:
    size = sizes(ctx, query)[3]
    if not isinstance(size, int):
        ctx.unsupported("scale must be given where the size of a head is symbolic")
    return size


def _mask(ctx: Context, query: relax.Expr, past: relax.Expr | None) -> tuple[Mask, bool]:
    """Return what hides scores, and whether it may hide a whole row."""
    mask = Mask(ctx)
    given, lengths = ctx.input(3), ctx.input(6)
    if given is not None:
        # From opset 24 on a mask may end early; before, an axis of one was repeated.
        short = ctx.opset >= 24
        if ctx.dtype(given) == "bool":
            mask.keep(given, None, short=short)
        else:
            mask.add(cast(ctx, given, ctx.dtype(query)), short=short)
    rows = sizes(ctx, query)[2]
    # Without a cache the first row stands at the first column.
    valid = lengths
    if valid is None:
        valid = rows if past is None else rows + sizes(ctx, past)[2]
    left, right = (ctx.attrs.get(f"{side}_window_size", -1) for side in ("left", "right"))
    causal = bool(ctx.attrs.get("is_causal", 0))
    bounds = [None if size < 0 else size for size in (left, right)]
    if causal:
        bounds[1] = 0
    if bounds != [None, None]:
        mask.window(valid, bounds[0], bounds[1])
    if lengths is not None:
        mask.keep_between(lengths, None)
    return mask, given is not None or lengths is not None or left >= 0 or right >= 0
