"""Element-wise and pooling operators on quantised tensors, of ONNX Runtime's domain.

The sums and products are those of its kernels, in float32, so that results round alike.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence

import numpy as np
import tvm
from tvm import relax, te, tirx

from moonpoly.compiler.frontend.converters.operand_shapes import sizes
from moonpoly.compiler.frontend.converters.quantized.integer_products import (
    float_operand,
    matmul,
    requantize,
    result_scale,
)
from moonpoly.compiler.frontend.converters.quantized.quantization import (
    as_float32,
    dequantize,
    quantize,
    round_quotient,
    saturate,
)
from moonpoly.compiler.frontend.converters.registry import converts
from moonpoly.compiler.frontend.converters.sizes import normal_axis
from moonpoly.compiler.frontend.graph.context import Context
from moonpoly.compiler.frontend.graph.unify import broadcast_operands
from moonpoly.compiler.frontend.node.values import Integer


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
    """Scale both to the result's units and add; what the zero points amount to comes first."""
    left, right = (_scaled(ctx, index) for index in (0, 3))
    fixed = ctx.emit(relax.op.add(_scaled_zero(ctx, 0), _scaled_zero(ctx, 3)))
    fixed = ctx.emit(relax.op.subtract(_result_zero(ctx, 7), fixed))
    total = ctx.emit(relax.op.add(left, ctx.emit(relax.op.add(right, fixed))))
    return saturate(ctx, ctx.emit(relax.op.round(total)), None, 0, ctx.dtype(0))


def _ratio(ctx: Context, index: int) -> relax.Expr:
    """Return the scale of operand ``index`` of QLinearAdd in units of the result's."""
    own, result = ctx.constant(index + 1), ctx.constant(6)
    if own is not None and result is not None:
        return relax.const(np.float32(own.reshape(())) / np.float32(result.reshape(())), "float32")
    return ctx.emit(relax.op.divide(float_operand(ctx, index + 1), float_operand(ctx, 6)))


def _scaled(ctx: Context, index: int) -> relax.Expr:
    data = ctx.input(index)
    assert data is not None, "the checker wants the operands"
    return ctx.emit(relax.op.multiply(as_float32(ctx, data), _ratio(ctx, index)))


def _scaled_zero(ctx: Context, index: int) -> relax.Expr:
    return ctx.emit(relax.op.multiply(_result_zero(ctx, index + 2), _ratio(ctx, index)))


def _result_zero(ctx: Context, index: int) -> relax.Expr:
    """Return the zero point that operand ``index`` is, or zero, as a float32 scalar."""
    zero = _zero(ctx, index)
    return relax.const(0.0, "float32") if zero is None else as_float32(ctx, zero)


@converts("QLinearMul", domain="com.microsoft")
def _qlinear_mul(ctx: Context) -> relax.Expr:
    """Multiply whole numbers, scale the product, and round it to float32 before the zero point."""
    product = ctx.emit(relax.op.multiply(_shifted(ctx, 0), _shifted(ctx, 3)))
    scale = ctx.emit(relax.op.astype(result_scale(ctx, 1, 4, 6), "float64"))

    def scale_product(product: te.Tensor, scale: te.Tensor, zero: te.Tensor) -> te.Tensor:
        # Exact in float64, then rounded: in float32 the addition would be fused with the product.
        # The scale is read as it is, or LLVM would see a product of two float32.
        def element(*at: tvm.ir.Expr) -> tvm.ir.Expr:
            scaled = tirx.Cast("float64", product(*at)) * scale()
            return tirx.nearbyint(tirx.Cast("float32", scaled) + zero())

        return te.compute(product.shape, element, name="scale_product")

    rounded = ctx.call_te(scale_product, product, scale, _result_zero(ctx, 7))
    return saturate(ctx, rounded, None, 0, ctx.dtype(0))


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
    """Return the softmax along an axis, before opset 13 over that axis and all behind it."""
    axis, shape = ctx.attrs.get("axis", -1), sizes(ctx, data)
    axis = normal_axis(ctx, axis, len(shape))
    if ctx.attrs.get("opset", 13) >= 13 or axis == len(shape) - 1:
        return ctx.emit(relax.op.nn.softmax(data, axis=axis))
    rows, columns = (ctx.symbols.product(part) for part in (shape[:axis], shape[axis:]))
    flat = ctx.emit(relax.op.reshape(data, [rows, columns]))
    return ctx.emit(relax.op.reshape(ctx.emit(relax.op.nn.softmax(flat, axis=1)), shape))


@converts("QLinearGlobalAveragePool", domain="com.microsoft")
def _qlinear_global_average_pool(ctx: Context) -> relax.Expr:
    """Sum whole numbers, and scale the sum."""
    data, zero = ctx.input(0), _zero(ctx, 2)
    assert data is not None, "the checker wants the operands"
    shape = sizes(ctx, data)
    last = bool(ctx.attrs.get("channels_last", 0))
    axes = range(1, len(shape) - 1) if last else range(2, len(shape))
    whole = ctx.emit(relax.op.astype(data, "int32"))
    if zero is not None:
        whole = ctx.emit(relax.op.subtract(whole, ctx.emit(relax.op.astype(zero, "int32"))))
    total = ctx.emit(relax.op.sum(whole, list(axes), keepdims=True))
    count = _number_of(ctx, [shape[axis] for axis in axes])
    unit = ctx.emit(relax.op.multiply(float_operand(ctx, 3), count))
    scale = ctx.emit(relax.op.divide(float_operand(ctx, 1), unit))
    return requantize(ctx, total, scale, 4)


def _number_of(ctx: Context, extents: Sequence[Integer]) -> relax.Expr:
    """Return the product of sizes as a float32 scalar."""
    if all(isinstance(extent, int) for extent in extents):
        return relax.const(float(math.prod(map(int, extents))), "float32")

    def count(extents: Sequence[Integer]) -> te.Tensor:
        product = functools.reduce(lambda left, right: left * right, extents)
        return te.compute([], lambda: tirx.Cast("float32", product), name="count")

    return ctx.call_te(count, list(extents))


@converts("QLinearAveragePool", domain="com.microsoft")
def _qlinear_average_pool(ctx: Context) -> relax.Expr:
    """Average real numbers; the zero point is added before the result is rounded."""
    pooled = _average(ctx, _real(ctx, 0))
    rounded = round_quotient(ctx, pooled, float_operand(ctx, 3), _result_zero(ctx, 4))
    return saturate(ctx, rounded, None, 0, ctx.dtype(0))


def _average(ctx: Context, data: relax.Expr) -> relax.Expr:
    """Return the averages of windows; pads are explicit."""
    rank = len(sizes(ctx, data))
    auto_pad = ctx.attrs.get("auto_pad", "NOTSET")
    if rank != 4 or ctx.attrs.get("channels_last", 0) or auto_pad not in ("NOTSET", "VALID"):
        ctx.unsupported(f"{rank} dimensions, channels_last or auto_pad {auto_pad}")
    pads = ctx.attrs.get("pads", [0] * 4) if auto_pad == "NOTSET" else [0] * 4
    pooled = relax.op.nn.avg_pool2d(
        data,
        pool_size=ctx.attrs["kernel_shape"],
        strides=ctx.attrs.get("strides", [1, 1]),
        padding=pads,
        ceil_mode=bool(ctx.attrs.get("ceil_mode", 0)),
        count_include_pad=bool(ctx.attrs.get("count_include_pad", 0)),
    )
    return ctx.emit(pooled)


_ACTIVATIONS: dict[str, Callable[[Context, relax.Expr], relax.Expr]] = {
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


@converts("QLinearWhere", domain="com.microsoft")
def _qlinear_where(ctx: Context) -> relax.Expr:
    """Quantise both as the result is, element by element, before one is chosen."""
    either = [_quantized(ctx, _real(ctx, index), 7) for index in (1, 4)]
    condition = ctx.input(0)
    assert condition is not None, "the checker wants the operands"
    operands = broadcast_operands(ctx, [condition, *either])
    return ctx.emit(relax.op.where(*operands))


@converts("QLinearReduceMean", domain="com.microsoft")
def _qlinear_reduce_mean(ctx: Context) -> relax.Expr:
    data = _real(ctx, 0)
    keep = bool(ctx.attrs.get("keepdims", 1))
    mean = ctx.emit(relax.op.mean(data, ctx.attrs.get("axes"), keepdims=keep))
    return _quantized(ctx, mean, 3)


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
    alpha = ctx.attrs.get("alpha", 1.0)
    scale = result_scale(ctx, 1, 4, 7 if ctx.has_input(7) else None)
    if alpha != 1.0:
        scale = ctx.emit(relax.op.multiply(scale, relax.const(alpha, "float32")))
    if not ctx.has_input(7):
        return relax.op.multiply(as_float32(ctx, product), scale)
    return requantize(ctx, product, scale, 8)
