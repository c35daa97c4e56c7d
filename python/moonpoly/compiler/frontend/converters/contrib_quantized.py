"""Element-wise and pooling operators on quantised tensors, of ONNX Runtime's domain.

The sums and products are those of its kernels, in float32, so that results round alike.
"""

from __future__ import annotations

from collections.abc import Callable

from tvm import relax

from moonpoly.compiler.frontend.context import Context
from moonpoly.compiler.frontend.converters.integer_products import (
    float_operand,
    matmul,
    requantize,
)
from moonpoly.compiler.frontend.converters.operand_shapes import sizes
from moonpoly.compiler.frontend.converters.quantization import (
    as_float32,
    dequantize,
    quantize,
)
from moonpoly.compiler.frontend.converters.registry import converts


def _real(ctx: Context, index: int) -> relax.Expr:
    """Return operand ``index``, of which scale and zero point follow, as float32."""
    data = ctx.input(index)
    assert data is not None, "the checker wants the operands"
    return dequantize(ctx, data, float_operand(ctx, index + 1), _zero(ctx, index + 2))


def _zero(ctx: Context, index: int) -> relax.Expr | None:
    zero = ctx.input(index)
    if zero is None or ctx.shape(zero) != (1,):
        return zero
    return ctx.emit(relax.op.reshape(zero, []))


def _quantized(ctx: Context, real: relax.Expr, index: int) -> relax.Expr:
    """Return ``real`` quantised by operand ``index``, a scale, and the zero point behind it."""
    known = ctx.constant(index + 1)
    shift = int(known.flat[0]) if known is not None and known.size == 1 else None
    zero = _zero(ctx, index + 1)
    if zero is None:
        shift = 0
    dtype = ctx.dtype(index + 1) if zero is not None else ctx.dtype(0)
    return quantize(ctx, real, float_operand(ctx, index), zero, shift, dtype)


@converts("QLinearAdd", domain="com.microsoft")
def _qlinear_add(ctx: Context) -> relax.Expr:
    total = ctx.emit(relax.op.add(_real(ctx, 0), _real(ctx, 3)))
    return _quantized(ctx, total, 6)


@converts("QLinearMul", domain="com.microsoft")
def _qlinear_mul(ctx: Context) -> relax.Expr:
    product = ctx.emit(relax.op.multiply(_shifted(ctx, 0), _shifted(ctx, 3)))
    scale = ctx.emit(relax.op.multiply(float_operand(ctx, 1), float_operand(ctx, 4)))
    scale = ctx.emit(relax.op.divide(scale, float_operand(ctx, 6)))
    return requantize(ctx, product, scale, 7)


def _shifted(ctx: Context, index: int) -> relax.Expr:
    """Return operand ``index`` less its zero point as float32, exactly."""
    data, zero = ctx.input(index), _zero(ctx, index + 2)
    assert data is not None, "the checker wants the operands"
    real = as_float32(ctx, data)
    return real if zero is None else ctx.emit(relax.op.subtract(real, as_float32(ctx, zero)))


def _leaky_relu(ctx: Context, data: relax.Expr) -> relax.Expr:
    return ctx.emit(relax.op.nn.leakyrelu(data, ctx.attrs.get("alpha", 0.01)))


def _sigmoid(ctx: Context, data: relax.Expr) -> relax.Expr:
    return ctx.emit(relax.op.sigmoid(data))


def _softmax(ctx: Context, data: relax.Expr) -> relax.Expr:
    if ctx.attrs.get("opset", 13) < 13 and ctx.attrs.get("axis", -1) not in (
        -1,
        len(sizes(ctx, data)) - 1,
    ):
        ctx.unsupported("a softmax over several axes")
    return ctx.emit(relax.op.nn.softmax(data, axis=ctx.attrs.get("axis", -1)))


def _global_average(ctx: Context, data: relax.Expr) -> relax.Expr:
    rank = len(sizes(ctx, data))
    last = bool(ctx.attrs.get("channels_last", 0))
    axes = list(range(1, rank - 1)) if last else list(range(2, rank))
    return ctx.emit(relax.op.mean(data, axes, keepdims=True))


_ACTIVATIONS: dict[str, Callable[[Context, relax.Expr], relax.Expr]] = {
    "QLinearGlobalAveragePool": _global_average,
    "QLinearLeakyRelu": _leaky_relu,
    "QLinearSigmoid": _sigmoid,
    "QLinearSoftmax": _softmax,
}


@converts(*_ACTIVATIONS, domain="com.microsoft")
def _qlinear_activation(ctx: Context) -> relax.Expr:
    return _quantized(ctx, _ACTIVATIONS[ctx.op](ctx, _real(ctx, 0)), 3)


@converts("QLinearConcat", domain="com.microsoft")
def _qlinear_concat(ctx: Context) -> relax.Expr:
    parts = [_real(ctx, index) for index in range(2, len(ctx.values), 3)]
    return _quantized(ctx, ctx.emit(relax.op.concat(parts, axis=ctx.attrs["axis"])), 0)


@converts("QGemm", domain="com.microsoft")
def _qgemm(ctx: Context) -> relax.Expr:
    if ctx.attrs.get("transA", 0):
        ctx.unsupported("transA")
    product = matmul(
        ctx, 0, 3, ctx.input(2), ctx.input(5), transpose=bool(ctx.attrs.get("transB", 0))
    )
    bias = ctx.input(6)
    if bias is not None:
        product = ctx.emit(relax.op.add(product, bias))
    scale = ctx.emit(relax.op.multiply(float_operand(ctx, 1), float_operand(ctx, 4)))
    alpha = ctx.attrs.get("alpha", 1.0)
    if alpha != 1.0:
        scale = ctx.emit(relax.op.multiply(scale, relax.const(alpha, "float32")))
    if not ctx.has_input(7):
        return relax.op.multiply(as_float32(ctx, product), scale)
    scale = ctx.emit(relax.op.divide(scale, float_operand(ctx, 7)))
    return requantize(ctx, product, scale, 8)
