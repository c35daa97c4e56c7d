"""Normalisations, with the statistics that training graphs take from them."""

from __future__ import annotations

from collections.abc import Sequence

from tvm import relax

from moonpoly.compiler.frontend.converters.registry import converts
from moonpoly.compiler.frontend.converters.sizes import known_shape, normal_axis
from moonpoly.compiler.frontend.graph.context import Context


def mean_and_variance(
    ctx: Context, data: relax.Expr, axes: Sequence[int]
) -> tuple[relax.Expr, relax.Expr]:
    """Return the mean and the variance over ``axes``, which stay at size 1."""
    mean = ctx.emit(relax.op.mean(data, list(axes), keepdims=True))
    centred = ctx.emit(relax.op.subtract(data, mean))
    square = ctx.emit(relax.op.multiply(centred, centred))
    return mean, ctx.emit(relax.op.mean(square, list(axes), keepdims=True))


def _cast(ctx: Context, data: relax.Expr, dtype: str) -> relax.Expr:
    return data if ctx.dtype(data) == dtype else ctx.emit(relax.op.astype(data, dtype))


@converts("LayerNormalization")
def _layer_normalization(ctx: Context) -> Sequence[relax.Expr] | None:
    shape = known_shape(ctx, 0)
    axis = normal_axis(ctx, ctx.attrs.get("axis", -1), len(shape))
    known = all(isinstance(size, int) for size in shape[axis:] + known_shape(ctx, 1))
    # TVM has a schedule of its own for these.
    is_plain = ctx.dtype(0) in ("float16", "float32") and not (ctx.wants(1) or ctx.wants(2))
    if known and is_plain and ctx.rank(1) == len(shape) - axis:
        return None
    data, scale = ctx.input(0), ctx.input(1)
    dtype = ctx.dtype(0)
    # The standard's stash_type: the statistics are taken in float32 at least.
    wide = dtype if dtype == "float64" else "float32"
    data = _cast(ctx, data, wide)
    mean, variance = mean_and_variance(ctx, data, range(axis, len(shape)))
    epsilon = relax.const(ctx.attrs.get("epsilon", 1e-5), wide)
    deviation = ctx.emit(relax.op.sqrt(relax.op.add(variance, epsilon)))
    inverse = ctx.emit(relax.op.divide(relax.const(1.0, wide), deviation))
    normal = ctx.emit(relax.op.multiply(relax.op.subtract(data, mean), inverse))
    result = relax.op.multiply(_cast(ctx, normal, dtype), scale)
    if ctx.has_input(2):
        result = relax.op.add(ctx.emit(result), ctx.input(2))
    return [ctx.emit(result), mean, inverse]


@converts("BatchNormalization")
def _batch_normalization(ctx: Context) -> Sequence[relax.Expr] | None:
    """Normalise by the batch's own statistics, as in training; inference is TVM's."""
    if not ctx.attrs.get("training_mode", 0):
        return None
    shape = known_shape(ctx, 0)
    data, scale, bias, old_mean, old_variance = (ctx.input(index) for index in range(5))
    dtype, momentum = ctx.dtype(0), ctx.attrs.get("momentum", 0.9)
    mean, variance = mean_and_variance(ctx, data, [0, *range(2, len(shape))])
    channels = [1, shape[1], *[1] * (len(shape) - 2)]
    epsilon = relax.const(ctx.attrs.get("epsilon", 1e-5), dtype)
    deviation = ctx.emit(relax.op.sqrt(relax.op.add(variance, epsilon)))
    normal = ctx.emit(relax.op.divide(relax.op.subtract(data, mean), deviation))
    scale, bias = (ctx.emit(relax.op.reshape(each, channels)) for each in (scale, bias))
    result = ctx.emit(relax.op.add(relax.op.multiply(normal, scale), bias))

    def running(old: relax.Expr, new: relax.Expr) -> relax.Expr:
        new = ctx.emit(relax.op.reshape(new, [shape[1]]))
        kept = relax.op.multiply(old, relax.const(momentum, ctx.dtype(old)))
        added = relax.op.multiply(
            _cast(ctx, new, ctx.dtype(old)), relax.const(1.0 - momentum, ctx.dtype(old))
        )
        return ctx.emit(relax.op.add(kept, added))

    return [result, running(old_mean, mean), running(old_variance, variance)]


@converts("LpNormalization")
def _lp_normalization(ctx: Context) -> relax.Expr:
    data, dtype = ctx.input(0), ctx.dtype(0)
    axis = normal_axis(ctx, ctx.attrs.get("axis", -1), len(known_shape(ctx, 0)))
    if ctx.attrs.get("p", 2) == 1:
        norm = ctx.emit(relax.op.sum(relax.op.abs(data), [axis], keepdims=True))
    else:
        squares = relax.op.multiply(data, data)
        norm = ctx.emit(relax.op.sqrt(relax.op.sum(squares, [axis], keepdims=True)))
    zero = relax.const(0.0, dtype)
    is_zero = ctx.emit(relax.op.equal(norm, zero))
    quotient = ctx.emit(relax.op.divide(data, norm))
    return ctx.emit(relax.op.where(is_zero, zero, quotient))


@converts("Dropout")
def _dropout(ctx: Context) -> Sequence[relax.Expr]:
    """Let everything through: that is what it does in inference, with a mask of ones."""
    if ctx.has_input(2):
        training = ctx.constant(2)
        ratio = ctx.constant(1) if ctx.has_input(1) else 0.5
        if training is None:
            ctx.unsupported("whether it trains is decided at run time; only inference is supported")
        if training.item() and (ratio is None or float(ratio) != 0.0):
            ctx.unsupported("training drops elements at random; only inference is supported")
    elif ctx.opset < 7 and not ctx.attrs.get("is_test", 0):
        ctx.unsupported("training drops elements at random; only inference is supported")
    data = ctx.input(0)
    if not ctx.wants(1):
        return [data]
    mask = relax.op.ones_like(data)
    dtype = "bool" if ctx.opset >= 10 else ctx.dtype(0)
    return [data, ctx.emit(relax.op.astype(ctx.emit(mask), dtype))]
