"""DynamicQuantizeLSTM: inputs and states are quantised by their own range before each product."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from tvm import relax

from moonpoly.compiler.frontend.converters.quantized.integer_products import pack
from moonpoly.compiler.frontend.converters.quantized.quantization import dynamic_quantize
from moonpoly.compiler.frontend.converters.recurrent import Layer
from moonpoly.compiler.frontend.converters.registry import converts
from moonpoly.compiler.frontend.graph.context import Context

# The node's operands after those of an LSTM.
_W_SCALE, _W_ZERO, _R_SCALE, _R_ZERO = 8, 9, 10, 11


@converts("DynamicQuantizeLSTM", domain="com.microsoft")
def _dynamic_quantize_lstm(ctx: Context) -> Sequence[relax.Expr]:
    """Y, Y_h, Y_c; W and R are (directions, inputs, 4 hidden), transposed against LSTM's."""
    weights = [_constant(ctx, index) for index in (1, 2)]
    layer = _layer(ctx, weights[1])
    width = 4 * layer.hidden
    scales = [_by_column(ctx, index, layer) for index in (_W_SCALE, _R_SCALE)]
    zeros = [_by_column(ctx, index, layer) for index in (_W_ZERO, _R_ZERO)]
    panels, sums = zip(*(pack(part) for part in weights[1]), strict=True)
    shared = layer.shared(
        _project(ctx, layer, weights[0], scales[0], zeros[0]),
        relax.const(np.stack(panels)),
        ["sigmoid", "tanh", "tanh"],
    )
    rest = [
        layer.optional(6),
        layer.optional(7),
        int(ctx.attrs.get("input_forget", 0)),
        relax.const(np.stack(sums)),
        relax.const(scales[1].reshape(-1, width).astype(np.float32)),
        relax.const(zeros[1].reshape(-1, width)),
    ]
    return layer.call("moonpoly.op.lstm_int8", shared + rest, states=2)


def _constant(ctx: Context, index: int) -> np.ndarray:
    value = ctx.constant(index)
    if value is None:
        ctx.unsupported("weights, their scales and zero points must be constants")
    return value


def _layer(ctx: Context, recurrent: np.ndarray) -> Layer:
    shape = ctx.shape(0)
    if shape is None or ctx.dtype(0) != "float32":
        ctx.unsupported("the shape of X must be known, its type float32")
    directions, hidden, width = recurrent.shape
    if width != 4 * hidden or recurrent.dtype.name not in ("int8", "uint8"):
        ctx.unsupported(f"R must be of 8-bit integers, (directions, h, 4 h), got {recurrent.shape}")
    return Layer(ctx, "float32", shape[0], shape[1], directions, hidden, batch_first=False)


def _by_column(ctx: Context, index: int, layer: Layer) -> np.ndarray:
    """Return a parameter of each direction, or of each column, as one of each column."""
    value = _constant(ctx, index)
    rows = value.reshape(layer.directions, -1)
    return np.ascontiguousarray(np.broadcast_to(rows, (layer.directions, 4 * layer.hidden)))


def _project(
    ctx: Context, layer: Layer, weight: np.ndarray, scales: np.ndarray, zeros: np.ndarray
) -> relax.Expr:
    """Multiply the inputs of all steps by the weights of all directions: one product."""
    data = ctx.input(0)
    assert data is not None, "the checker wants a first input"
    quantized, scale, zero = dynamic_quantize(ctx, data)
    columns = weight.transpose(1, 0, 2).reshape(weight.shape[1], -1)
    panels, sums = pack(columns)
    width = columns.shape[1]
    product = relax.op.call_dps_packed(
        "moonpoly.op.matmul_int8_packed",
        relax.Tuple(
            [quantized, relax.const(panels), relax.const(sums), zero, relax.const(zeros.ravel())]
        ),
        relax.TensorType([layer.steps, layer.batch, width], "int32"),
    )
    real = ctx.emit(relax.op.astype(ctx.emit(product), "float32"))
    unit = ctx.emit(relax.op.multiply(scale, relax.const(scales.ravel().astype(np.float32))))
    result = ctx.emit(relax.op.multiply(real, unit))
    bias = ctx.constant(3)
    if bias is None:
        if ctx.has_input(3):
            ctx.unsupported("the bias must be a constant")
        return result
    both = bias.reshape(layer.directions, 2, -1).sum(axis=1, dtype=np.float32)
    return ctx.emit(relax.op.add(result, relax.const(both.ravel().astype(np.float32))))
