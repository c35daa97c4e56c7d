"""QuantizeLinear, DequantizeLinear and DynamicQuantizeLinear, as ONNX Runtime rounds them.

Types of fewer than eight bits are held in bytes: the values are the same, one to a byte.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import onnx
import tvm
from tvm import relax, te, tirx

from moonpoly.compiler.frontend.converters.operand_shapes import sizes, with_sizes
from moonpoly.compiler.frontend.converters.registry import converts
from moonpoly.compiler.frontend.graph.context import Context
from moonpoly.compiler.frontend.node.values import Integer

# Smallest and largest value of the types that can be quantised to, by ONNX's names.
RANGES = {
    "int8": (-128, 127),
    "uint8": (0, 255),
    "int16": (-32768, 32767),
    "uint16": (0, 65535),
    "int4": (-8, 7),
    "uint4": (0, 15),
    "int2": (-2, 1),
    "uint2": (0, 3),
}
_FLOATS = ("float32", "float16", "bfloat16", "float64")


@converts("QuantizeLinear", domain="com.microsoft")
@converts("QuantizeLinear")
def _quantize_linear(ctx: Context) -> relax.Expr:
    data, scale, zero = ctx.input(0), ctx.input(1), byte_operand(ctx, 2)
    assert data is not None, "the checker wants a first input"
    assert scale is not None, "the checker wants a scale"
    dtype = _output_dtype(ctx)
    axis = ctx.attrs.get("axis", 1)
    block = ctx.attrs.get("block_size", 0)
    scale = spread(ctx, scale, ctx.constant(1), data, axis, block)
    known = ctx.constant(2)
    if zero is not None:
        known = None if known is None else byte_array(known)
        zero = spread(ctx, zero, known, data, axis, block)
        known = known if known is not None and known.size == 1 else None
    elif not ctx.has_input(2):
        known = np.zeros((), np.int64)
    return quantize(ctx, data, scale, zero, None if known is None else int(known.flat[0]), dtype)


def _output_dtype(ctx: Context) -> str:
    """Return the type to quantise to: that of the zero point, or the attribute's."""
    if ctx.has_input(2):
        dtype = ctx.dtype(2)
    elif ctx.attrs.get("output_dtype", 0):
        element = ctx.attrs["output_dtype"]
        dtype = onnx.helper.tensor_dtype_to_np_dtype(element).name
    else:
        dtype = "uint8"
    if dtype not in RANGES:
        ctx.unsupported(f"quantising to {dtype}; integers of 2 to 16 bits are supported")
    return dtype


def quantize(
    ctx: Context,
    data: relax.Expr,
    scale: relax.Expr,
    zero: relax.Expr | None,
    known_zero: int | None,
    dtype: str,
) -> relax.Expr:
    """Return saturate(round(data / scale) + zero) with ties to even.

    Parameters
    ----------
    data
        A tensor of floats or int32.
    scale, zero
        Broadcast with ``data``; no zero point stands for zero.
    known_zero
        The zero point where it is one number known at compile time.
    dtype
        The result's type, a key of ``RANGES``.
    """
    data, scale = as_float32(ctx, data), as_float32(ctx, scale)
    rounded = round_quotient(ctx, data, scale)
    return saturate(ctx, rounded, zero, known_zero, dtype)


def round_quotient(
    ctx: Context, data: relax.Expr, scale: relax.Expr, shift: relax.Expr | None = None
) -> relax.Expr:
    """Return round(data / scale + shift) of float32, ties to even.

    It is one expression, so that the schedules keep the quotient to its last bit.
    """

    def round_quotient(data: te.Tensor, *others: te.Tensor) -> te.Tensor:
        def element(*at: tvm.ir.Expr) -> tvm.ir.Expr:
            scale, *shift = (_broadcast_element(other, at) for other in others)
            quotient = tirx.div(data(*at), scale)
            return tirx.nearbyint(quotient + shift[0] if shift else quotient)

        return te.compute(data.shape, element, name="round_quotient")

    return ctx.call_te(round_quotient, data, scale, *([] if shift is None else [shift]))


def _broadcast_element(tensor: te.Tensor, at: Sequence[tvm.ir.Expr]) -> tvm.ir.Expr:
    own = at[len(at) - len(tensor.shape) :]
    zero = tirx.IntImm("int64", 0)
    return tensor(
        *(
            zero if isinstance(size, tirx.IntImm) and int(size) == 1 else index
            for index, size in zip(own, tensor.shape, strict=True)
        )
    )


def saturate(
    ctx: Context,
    rounded: relax.Expr,
    zero: relax.Expr | None,
    known_zero: int | None,
    dtype: str,
) -> relax.Expr:
    """Return whole float32 numbers plus ``zero`` as integers, clipped to what ``dtype`` holds."""
    low, high = RANGES[dtype]
    if known_zero is not None or zero is None:
        shift = known_zero or 0
        clipped = _clip(ctx, rounded, low - shift, high - shift)
        if shift:
            clipped = ctx.emit(relax.op.add(clipped, relax.const(float(shift), "float32")))
    else:
        # The sum is exact wherever it isn't clipped: neither side has more than 16 bits.
        shifted = ctx.emit(relax.op.add(rounded, as_float32(ctx, zero)))
        clipped = _clip(ctx, shifted, low, high)
    return ctx.emit(relax.op.astype(clipped, carrier(dtype)))


def _clip(ctx: Context, values: relax.Expr, low: int, high: int) -> relax.Expr:
    """Return float32 ``values`` within bounds; NaN becomes ``low``, as in ONNX Runtime."""
    bounded = ctx.emit(relax.op.maximum(values, relax.const(float(low), "float32")))
    return ctx.emit(relax.op.minimum(bounded, relax.const(float(high), "float32")))


@converts("DequantizeLinear", domain="com.microsoft")
@converts("DequantizeLinear")
def _dequantize_linear(ctx: Context) -> relax.Expr | None:
    dtype = ctx.dtype(0)
    if dtype.startswith(("float8", "float4")):
        ctx.unsupported(f"dequantising {dtype}; integers are supported")
    data, scale, zero = byte_operand(ctx, 0), ctx.input(1), byte_operand(ctx, 2)
    assert data is not None, "the checker wants a first input"
    assert scale is not None, "the checker wants a scale"
    out_dtype = ctx.dtype(1)
    if ctx.attrs.get("output_dtype", 0):
        out_dtype = ctx.element_type("output_dtype")
    axis, block = ctx.attrs.get("axis", 1), ctx.attrs.get("block_size", 0)
    scale = spread(ctx, scale, ctx.constant(1), data, axis, block)
    known = ctx.constant(2)
    if zero is None or (known is not None and not byte_array(known).any()):
        zero = None
    else:
        known = None if known is None else byte_array(known)
        zero = spread(ctx, zero, known, data, axis, block)
    is_weight = ctx.constant(0) is not None and ctx.constant(1) is not None
    return dequantize(ctx, data, scale, zero, out_dtype, folds=is_weight)


def dequantize(
    ctx: Context,
    data: relax.Expr,
    scale: relax.Expr,
    zero: relax.Expr | None,
    out_dtype: str = "float32",
    *,
    folds: bool = False,
) -> relax.Expr:
    """Return (data - zero) * scale; the product is rounded once, to ``out_dtype``.

    With ``folds`` the operands are weights, and the result is found at compile time: operators that
    the compiler evaluates, each of which rounds.
    """
    if zero is not None and ctx.dtype(data) == "int32":
        data, zero = ctx.emit(relax.op.subtract(data, zero)), None
    compute = "float64" if out_dtype == "float64" else "float32"
    value = ctx.emit(relax.op.astype(data, compute))
    if zero is not None:
        # Exact: neither side has more than 16 bits.
        value = ctx.emit(relax.op.subtract(value, ctx.emit(relax.op.astype(zero, compute))))
    if ctx.dtype(scale) != compute:
        scale = ctx.emit(relax.op.astype(scale, compute))
    if folds:
        product = ctx.emit(relax.op.multiply(value, scale))
    else:
        product = ctx.call_te(_rounded_product, value, scale)
    return product if out_dtype == compute else ctx.emit(relax.op.astype(product, out_dtype))


def _rounded_product(value: te.Tensor, scale: te.Tensor) -> te.Tensor:
    """Multiply, and round: as a product, LLVM would fuse it with a sum that follows.

    What is dequantised often lies on few multiples, and their sums between two integers, where the
    last bit says to which one they are quantised.
    """

    def element(*at: tvm.ir.Expr) -> tvm.ir.Expr:
        nothing = tirx.const(0.0, value.dtype)
        return tirx.op.fma(value(*at), _broadcast_element(scale, at), nothing)

    return te.compute(value.shape, element, name="dequantize")


@converts("DynamicQuantizeLinear")
def _dynamic_quantize_linear(ctx: Context) -> list[relax.Expr]:
    data = ctx.input(0)
    assert data is not None, "the checker wants a first input"
    return dynamic_quantize(ctx, data)


def dynamic_quantize(ctx: Context, data: relax.Expr) -> list[relax.Expr]:
    """Return float32 ``data`` quantised to uint8 by its own range, the scale and the zero point."""
    shape = data.ty.shape
    results = ctx.emit(
        relax.op.call_dps_packed(
            "moonpoly.op.dynamic_quantize",
            relax.Tuple([data]),
            [
                relax.TensorType(shape, "uint8"),
                relax.TensorType([], "float32"),
                relax.TensorType([], "uint8"),
            ],
        )
    )
    return [ctx.emit(relax.TupleGetItem(results, index)) for index in range(3)]


def byte_operand(ctx: Context, index: int) -> relax.Expr | None:
    """Return operand ``index``; a constant of fewer than eight bits in bytes.

    A tensor of such a type that is an input of the model is packed, and refused.
    """
    if not ctx.has_input(index) or carrier(ctx.dtype(index)) == ctx.dtype(index):
        return ctx.input(index)
    known = ctx.constant(index)
    if known is None:
        ctx.unsupported(f"a tensor of {ctx.dtype(index)} that is no constant")
    return relax.const(byte_array(known))


def carrier(dtype: str) -> str:
    """Return the type that holds ``dtype``: bytes for fewer bits."""
    if dtype in ("int4", "int2"):
        return "int8"
    return "uint8" if dtype in ("uint4", "uint2") else dtype


def byte_array(array: np.ndarray) -> np.ndarray:
    """Return ``array`` with types of fewer than eight bits widened to bytes."""
    return array.astype(carrier(array.dtype.name))


def as_float32(ctx: Context, expr: relax.Expr) -> relax.Expr:
    """Return ``expr`` as float32."""
    return expr if ctx.dtype(expr) == "float32" else ctx.emit(relax.op.astype(expr, "float32"))


def spread(
    ctx: Context,
    parameter: relax.Expr,
    known: np.ndarray | None,
    data: relax.Expr,
    axis: int,
    block: int,
) -> relax.Expr:
    """Return a scale or zero point so that it broadcasts with ``data``.

    Parameters
    ----------
    parameter
        One element, one for each index along ``axis``, or one for each block along it.
    known
        Its value where it is known at compile time.
    data
        What is quantised.
    block
        Elements of a block along ``axis``; 0 where it isn't in blocks.
    """
    rank, own_rank = ctx.rank(data), ctx.rank(parameter)
    if known is not None and known.size == 1:
        return relax.const(known.reshape(()))
    if own_rank == 0:
        return parameter
    if rank is None or own_rank is None:
        ctx.unsupported("the rank of the data or of the scale depends on data")
    axis += rank if axis < 0 else 0
    shape, own = sizes(ctx, data), sizes(ctx, parameter)
    if own_rank != 1 or block:
        return _spread_blocks(ctx, parameter, shape, axis, block)
    if own == (1,):
        return ctx.emit(relax.op.reshape(parameter, []))
    parameter = with_sizes(ctx, parameter, [shape[axis]])
    return ctx.emit(
        relax.op.reshape(parameter, [*[1] * axis, shape[axis], *[1] * (rank - axis - 1)])
    )


def _spread_blocks(
    ctx: Context, parameter: relax.Expr, shape: Sequence[Integer], axis: int, block: int
) -> relax.Expr:
    own = sizes(ctx, parameter)
    if len(own) != len(shape):
        ctx.unsupported("a scale of blocks must have the rank of the data")
    if not block:
        whole, count = shape[axis], own[axis]
        if not isinstance(whole, int) or not isinstance(count, int):
            ctx.unsupported("block_size must be given where the blocks' axis is symbolic")
        block = math.ceil(whole / count)
    blocks = (shape[axis] + (block - 1)) // block
    parameter = with_sizes(ctx, parameter, [*shape[:axis], blocks, *shape[axis + 1 :]])

    def expand(blocks: te.Tensor, extents: Sequence[Integer]) -> te.Tensor:
        def element(*indices: tvm.ir.Expr) -> tvm.ir.Expr:
            place = list(indices)
            place[axis] = place[axis] // block
            return blocks(*place)

        return te.compute(extents, element, name="spread_blocks")

    return ctx.call_te(expand, parameter, list(shape))
