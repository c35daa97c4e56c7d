"""Products and convolutions of 8-bit integers, exact in the run-time library.

What follows the sum of integers (the scale, the rounding) is left to generated code. A constant
right-hand side is laid out here, once.
"""

from __future__ import annotations

import numpy as np
from tvm import relax

from moonpoly import _ffi_api
from moonpoly.compiler.frontend.converters.images.windows import conv_attributes, conv_shape
from moonpoly.compiler.frontend.converters.operand_shapes import as_matrices
from moonpoly.compiler.frontend.converters.quantized.quantization import (
    as_float32,
    dynamic_quantize,
    saturate,
)
from moonpoly.compiler.frontend.converters.registry import converts
from moonpoly.compiler.frontend.graph.context import Context

_BYTES = ("int8", "uint8")


@converts("MatMulInteger")
def _matmul_integer(ctx: Context) -> relax.Expr:
    return matmul(ctx, 0, 1, ctx.input(2), ctx.input(3))


def matmul(
    ctx: Context,
    left: int | relax.Expr,
    right: int,
    left_zero: relax.Expr | None,
    right_zero: relax.Expr | None,
    transpose: bool = False,
) -> relax.Expr:
    """Return the int32 product of operand ``left`` and operand ``right``, as NumPy's matmul.

    Parameters
    ----------
    left
        An operand's number, or an expression.
    right
        An operand's number: a matrix that is a constant is laid out for the kernels here.
    left_zero, right_zero
        Zero points: one element, one for each row or column, or such of each matrix of a batch.
    transpose
        Operand ``right`` is a matrix (n, k).
    """
    a = ctx.input(left) if isinstance(left, int) else left
    b = ctx.input(right)
    assert a is not None, "the checker wants a left operand"
    assert b is not None, "the checker wants a right operand"
    for operand in (a, b):
        if ctx.dtype(operand) not in _BYTES:
            ctx.unsupported(f"operands of {ctx.dtype(operand)}; int8 and uint8 are supported")
    a_zero = _zero(ctx.dtype(a)) if left_zero is None else left_zero
    b_zero = _zero(ctx.dtype(b)) if right_zero is None else right_zero
    constant = ctx.constant(right)
    if transpose:
        b = ctx.emit(relax.op.permute_dims(b, [1, 0]))
        constant = None if constant is None else constant.T
    pair = as_matrices(ctx, a, b)
    out = relax.TensorType(pair.shape, "int32")
    if constant is not None and constant.ndim <= 2:
        panels, sums = pack(constant.reshape(constant.shape[0], -1))
        operands = [pair.left, relax.const(panels), relax.const(sums), a_zero, b_zero]
        product = relax.op.call_dps_packed(
            "moonpoly.op.matmul_int8_packed", relax.Tuple(operands), out
        )
    else:
        operands = [pair.left, pair.right, a_zero, b_zero]
        product = relax.op.call_dps_packed("moonpoly.op.matmul_int8", relax.Tuple(operands), out)
    return pair.restore(ctx.emit(product))


def pack(matrix: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Lay out a right-hand side (k, n) as the kernels read it.

    Returns
    -------
    panels
        (ceil(n / 16), ceil(k / 4), 16, 4) int8.
    sums
        (ceil(n / 16), 16) int32, of the panels' columns.
    """
    k, n = matrix.shape
    panels = np.empty((-(-n // 16), -(-k // 4), 16, 4), np.int8)
    sums = np.empty((-(-n // 16), 16), np.int32)
    # The library takes no array that is read-only, as an initialiser's is.
    _ffi_api.pack_int8(np.array(matrix, order="C"), panels, sums)
    return panels, sums


def _zero(dtype: str) -> relax.Expr:
    return relax.const(0, dtype)


@converts("ConvInteger")
def _conv_integer(ctx: Context) -> relax.Expr:
    return convolve(ctx, ctx.input(0), ctx.input(1), ctx.input(2), ctx.input(3))


def convolve(
    ctx: Context,
    data: relax.Expr | None,
    weight: relax.Expr | None,
    data_zero: relax.Expr | None,
    weight_zero: relax.Expr | None,
) -> relax.Expr:
    """Return the int32 convolution with the node's strides, pads, dilations and groups.

    Parameters
    ----------
    data, weight
        (n, c, ...) and (m, c / groups, ...), int8 or uint8, of one to three spatial dimensions.
    data_zero, weight_zero
        Zero points: one element, or one for each output channel.
    """
    assert data is not None, "the checker wants a first input"
    assert weight is not None, "the checker wants a weight"
    for operand in (data, weight):
        if ctx.dtype(operand) not in _BYTES:
            ctx.unsupported(f"operands of {ctx.dtype(operand)}; int8 and uint8 are supported")
    attributes = conv_attributes(ctx, data, weight)
    operands = [
        data,
        weight,
        _zero(ctx.dtype(data)) if data_zero is None else data_zero,
        _zero(ctx.dtype(weight)) if weight_zero is None else weight_zero,
        relax.ShapeExpr(attributes.flat()),
    ]
    out = relax.TensorType(conv_shape(ctx, data, weight, attributes), "int32")
    return ctx.emit(relax.op.call_dps_packed("moonpoly.op.conv_int8", relax.Tuple(operands), out))


@converts("QLinearMatMul", domain="com.microsoft")
@converts("QLinearMatMul")
def _qlinear_matmul(ctx: Context) -> relax.Expr:
    product = matmul(ctx, 0, 3, ctx.input(2), ctx.input(5))
    return requantize(ctx, product, result_scale(ctx, 1, 4, 6), 7)


@converts("QLinearConv")
def _qlinear_conv(ctx: Context) -> relax.Expr:
    product = convolve(ctx, ctx.input(0), ctx.input(3), ctx.input(2), ctx.input(5))
    rank = ctx.rank(product)
    assert rank is not None, "a convolution has a rank"
    bias = ctx.input(8)
    if bias is not None:
        product = ctx.emit(relax.op.add(product, _by_channel(ctx, bias, rank)))
    return requantize(ctx, product, _by_channel(ctx, result_scale(ctx, 1, 4, 6), rank), 7)


def _by_channel(ctx: Context, vector: relax.Expr, rank: int) -> relax.Expr:
    sizes = ctx.shape(vector)
    if sizes is None:
        ctx.unsupported("the length of a scale or bias depends on data")
    if not sizes:
        return vector
    return ctx.emit(relax.op.reshape(vector, [1, sizes[0], *[1] * (rank - 2)]))


def float_operand(ctx: Context, index: int) -> relax.Expr:
    """Return operand ``index``, a scale, as float32; one of one element without dimensions."""
    scale = ctx.input(index)
    assert scale is not None, "the checker wants the scales"
    scale = as_float32(ctx, scale)
    return ctx.emit(relax.op.reshape(scale, [])) if ctx.shape(scale) == (1,) else scale


def result_scale(ctx: Context, left: int, right: int, result: int | None) -> relax.Expr:
    """Return scale * scale / scale of three operands, or the product where there is no third.

    Known scales are worked out here: a last bit more or less would turn ties.
    """
    indices = [left, right] if result is None else [left, right, result]
    arrays = []
    for index in indices:
        known = ctx.constant(index)
        if known is None:
            break
        array = known.astype(np.float32)
        arrays.append(array.reshape(()) if array.size == 1 else array)
    else:
        scale = arrays[0] * arrays[1]
        return relax.const(scale if result is None else scale / arrays[2], "float32")
    product = ctx.emit(relax.op.multiply(float_operand(ctx, left), float_operand(ctx, right)))
    if result is None:
        return product
    return ctx.emit(relax.op.divide(product, float_operand(ctx, result)))


def requantize(ctx: Context, sums: relax.Expr, scale: relax.Expr, zero: int) -> relax.Expr:
    """Return saturate(round(sums * scale) + zero) of the type of operand ``zero``."""
    scaled = ctx.emit(relax.op.multiply(as_float32(ctx, sums), scale))
    rounded = ctx.emit(relax.op.round(scaled))
    known = ctx.constant(zero)
    shift = int(known.flat[0]) if known is not None and known.size == 1 else None
    return saturate(ctx, rounded, ctx.input(zero), shift, ctx.dtype(zero))


@converts("MatMulIntegerToFloat", domain="com.microsoft")
def _matmul_integer_to_float(ctx: Context) -> relax.Expr:
    product = matmul(ctx, 0, 1, ctx.input(4), ctx.input(5))
    return to_float(ctx, product, result_scale(ctx, 2, 3, None), ctx.input(6))


@converts("DynamicQuantizeMatMul", domain="com.microsoft")
def _dynamic_quantize_matmul(ctx: Context) -> relax.Expr:
    data = ctx.input(0)
    assert data is not None, "the checker wants a first input"
    quantized, scale, zero = dynamic_quantize(ctx, as_float32(ctx, data))
    product = matmul(ctx, quantized, 1, zero, ctx.input(3))
    scale = ctx.emit(relax.op.multiply(scale, float_operand(ctx, 2)))
    return to_float(ctx, product, scale, ctx.input(4))


def to_float(
    ctx: Context, product: relax.Expr, scale: relax.Expr, bias: relax.Expr | None
) -> relax.Expr:
    """Return product * scale + bias as float32."""
    result = ctx.emit(relax.op.multiply(as_float32(ctx, product), scale))
    return result if bias is None else ctx.emit(relax.op.add(result, bias))
