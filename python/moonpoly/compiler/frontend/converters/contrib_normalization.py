"""Layer normalisations with what ONNX Runtime's optimiser fuses into them, and RMS ones."""

from __future__ import annotations

from collections.abc import Sequence

from tvm import relax

from moonpoly.compiler.frontend.converters.indices import checked_indices
from moonpoly.compiler.frontend.converters.operand_shapes import sizes
from moonpoly.compiler.frontend.converters.registry import converts
from moonpoly.compiler.frontend.graph.context import Context


def _operand(ctx: Context, index: int, name: str) -> relax.Expr:
    value = ctx.input(index)
    if value is None:
        ctx.unsupported(f"{name} is left out")
    return value


def _axes(ctx: Context, data: relax.Expr) -> list[int]:
    rank = ctx.rank(data)
    if rank is None:
        ctx.unsupported("the rank of the input depends on data")
    axis = ctx.attrs.get("axis", -1)
    return list(range(axis + rank if axis < 0 else axis, rank))


def _cast(ctx: Context, expr: relax.Expr, dtype: str) -> relax.Expr:
    return expr if ctx.dtype(expr) == dtype else ctx.emit(relax.op.astype(expr, dtype))


def _layer_norm(
    ctx: Context, data: relax.Expr, gamma: relax.Expr, beta: relax.Expr | None, epsilon: float
) -> relax.Expr:
    """Normalise over the last axis, in float32 at least, and return ``data``'s type."""
    dtype = ctx.dtype(data)
    compute = "float64" if dtype == "float64" else "float32"
    if beta is None:
        beta = ctx.emit(relax.op.zeros(relax.ShapeExpr(sizes(ctx, gamma)), compute))
    operands = [_cast(ctx, operand, compute) for operand in (data, gamma, beta)]
    result = ctx.emit(relax.op.nn.layer_norm(*operands, axes=[-1], epsilon=epsilon))
    return _cast(ctx, result, dtype)


def rms_norm(
    ctx: Context, data: relax.Expr, gamma: relax.Expr, axes: Sequence[int], epsilon: float
) -> tuple[relax.Expr, relax.Expr]:
    """Divide by the root mean square over ``axes``, in float32 at least.

    Returns
    -------
    result
        Of the type of ``data``.
    inverse
        One over the root mean square, with ``axes`` of size 1.
    """
    dtype = ctx.dtype(data)
    compute = "float64" if dtype == "float64" else "float32"
    data, gamma = _cast(ctx, data, compute), _cast(ctx, gamma, compute)
    squares = ctx.emit(relax.op.multiply(data, data))
    mean = ctx.emit(relax.op.mean(squares, list(axes), keepdims=True))
    inverse = ctx.emit(relax.op.rsqrt(ctx.emit(relax.op.add(mean, relax.const(epsilon, compute)))))
    scaled = ctx.emit(relax.op.multiply(ctx.emit(relax.op.multiply(data, inverse)), gamma))
    return _cast(ctx, scaled, dtype), inverse


@converts("RMSNormalization")
@converts("SimplifiedLayerNormalization", domain="com.microsoft")
def _rms_normalization(ctx: Context) -> list[relax.Expr]:
    data, gamma = _operand(ctx, 0, "X"), _operand(ctx, 1, "the scale")
    result, inverse = rms_norm(ctx, data, gamma, _axes(ctx, data), ctx.attrs.get("epsilon", 1e-5))
    return [result, inverse][: max(1, ctx.num_outputs)]


@converts("SkipLayerNormalization", domain="com.microsoft")
def _skip_layer_normalization(ctx: Context) -> list[relax.Expr | None]:
    total = _skip_sum(ctx, ctx.input(4))
    result = _layer_norm(
        ctx, total, _operand(ctx, 2, "gamma"), ctx.input(3), ctx.attrs.get("epsilon", 1e-12)
    )
    return _with_sum(ctx, result, total)


@converts("SkipSimplifiedLayerNormalization", domain="com.microsoft")
def _skip_simplified(ctx: Context) -> list[relax.Expr | None]:
    total = _skip_sum(ctx, ctx.input(3))
    result, _ = rms_norm(
        ctx, total, _operand(ctx, 2, "gamma"), [-1], ctx.attrs.get("epsilon", 1e-12)
    )
    return _with_sum(ctx, result, total)


def _skip_sum(ctx: Context, bias: relax.Expr | None) -> relax.Expr:
    total = ctx.emit(relax.op.add(_operand(ctx, 0, "input"), _operand(ctx, 1, "skip")))
    return total if bias is None else ctx.emit(relax.op.add(total, bias))


def _with_sum(ctx: Context, result: relax.Expr, total: relax.Expr) -> list[relax.Expr | None]:
    """Return the outputs: the result, the statistics that inference never makes, and the sum."""
    if ctx.wants(1) or ctx.wants(2):
        ctx.unsupported("the mean and the deviation are wanted, which are for training only")
    return [result, None, None, total][: ctx.num_outputs]


@converts("EmbedLayerNormalization", domain="com.microsoft")
def _embed_layer_normalization(ctx: Context) -> list[relax.Expr | None]:
    ids = _operand(ctx, 0, "input_ids")
    batch, length = sizes(ctx, ids)
    total = _look_up(ctx, _operand(ctx, 2, "word_embedding"), 0)
    table = _operand(ctx, 3, "position_embedding")
    positions = 8 if ctx.has_input(8) else ctx.emit(relax.op.arange(0, length, 1, "int64"))
    total = ctx.emit(relax.op.add(total, _look_up(ctx, table, positions)))
    if ctx.has_input(1):
        segment_table = _operand(ctx, 4, "segment_embedding")
        total = ctx.emit(relax.op.add(total, _look_up(ctx, segment_table, 1)))
    result = _layer_norm(
        ctx,
        total,
        _operand(ctx, 5, "gamma"),
        _operand(ctx, 6, "beta"),
        ctx.attrs.get("epsilon", 1e-12),
    )
    counts = None
    if ctx.wants(1):
        mask = ctx.input(7)
        if mask is not None:
            counts = ctx.emit(relax.op.sum(_cast(ctx, mask, "int32"), axis=[1]))
        else:
            counts = ctx.emit(relax.op.zeros([batch], "int32"))
    return [result, counts, total][: ctx.num_outputs]


def _look_up(ctx: Context, table: relax.Expr, indices: int | relax.Expr) -> relax.Expr:
    return ctx.emit(relax.op.take(table, checked_indices(ctx, indices, sizes(ctx, table)[:1]), 0))
