"""Fourier transforms, and the mel scale: C++ operators (``src/ops/spectrum.cc``)."""

from __future__ import annotations

import numpy as np
from tvm import relax

from moonpoly.compiler.frontend.converters.packed_call import call_packed
from moonpoly.compiler.frontend.converters.registry import Converted, converts
from moonpoly.compiler.frontend.converters.sizes import known_shape, normal_axis
from moonpoly.compiler.frontend.graph.context import Context
from moonpoly.compiler.frontend.node.values import Integer

# From this opset on the axis of a DFT is an operand.
_AXIS_OPERAND_OPSET = 20
_NONE = np.zeros(0, np.int64)


def _optional(ctx: Context, index: int, dtype: str = "int64") -> relax.Expr:
    """Return an operand, or an empty tensor of ``dtype`` where it is left out."""
    if ctx.has_input(index):
        return ctx.input(index)
    return relax.const(_NONE.astype(dtype), dtype)


def _integer(ctx: Context, index: int) -> Integer:
    """Return the one integer that an operand is; it may be read at run time."""
    found = ctx.read_integers(index)
    if found is None or found.size != 1:
        ctx.unsupported(f"operand {index} must be one integer")
    return found.reshape(-1)[0]


def _half(ctx: Context, length: Integer) -> Integer:
    """Return how many bins of a real signal's spectrum tell all of it."""
    return ctx.symbols.add(ctx.symbols.divide(length, 2), 1)


def _parts(ctx: Context, shape: tuple[Integer, ...]) -> int:
    if len(shape) < 2 or shape[-1] not in (1, 2):
        ctx.unsupported(f"a signal of shape {shape}; its last axis must be 1 (real) or 2 (complex)")
    return int(shape[-1])


@converts("DFT")
def dft(ctx: Context) -> Converted:
    """Transform along one axis, forth or back, whole spectra or halves of them."""
    shape = known_shape(ctx, 0)
    inverse, onesided = (bool(ctx.attrs.get(name, 0)) for name in ("inverse", "onesided"))
    if (parts := _parts(ctx, shape)) != (2 if inverse else 1) and onesided:
        ctx.unsupported(f"half a spectrum of a signal of {parts} parts")
    if ctx.opset < _AXIS_OPERAND_OPSET or not ctx.has_input(2):
        default = 1 if ctx.opset < _AXIS_OPERAND_OPSET else -2
        known: np.ndarray | None = np.array(ctx.attrs.get("axis", default), np.int64)
        axis_tensor: relax.Expr | None = relax.const(known, "int64")
    else:
        known, axis_tensor = ctx.constant(2), ctx.input(2)
    sizes = list(shape)
    if known is not None:
        axis = normal_axis(ctx, int(known.reshape(())), len(shape))
        sizes[axis] = _length(ctx, shape[axis], inverse, onesided)
    elif onesided or ctx.has_input(1):
        # Any of them may be the one that is transformed.
        sizes[:-1] = [ctx.new_dim("dft_dim") for _ in sizes[:-1]]
    sizes[-1] = 1 if inverse and onesided else 2
    args = [ctx.input(0), _optional(ctx, 1), axis_tensor, int(inverse), int(onesided)]
    return call_packed(ctx, "moonpoly.op.dft", args, [sizes], [ctx.dtype(0)])


def _length(ctx: Context, extent: Integer, inverse: bool, onesided: bool) -> Integer:
    """Return the size of the result along the axis that is transformed."""
    length: Integer = extent
    if ctx.has_input(1):
        length = _integer(ctx, 1)
    elif inverse and onesided:
        length = ctx.symbols.multiply(ctx.symbols.subtract(extent, 1), 2)
    return _half(ctx, length) if onesided and not inverse else length


@converts("STFT")
def stft(ctx: Context) -> Converted:
    """Transform frames of a signal, each weighted by a window."""
    shape, step = known_shape(ctx, 0), _integer(ctx, 1)
    onesided = bool(ctx.attrs.get("onesided", 1))
    if len(shape) != 3:
        ctx.unsupported(f"a signal of rank {len(shape)}, expected 3")
    if _parts(ctx, shape) == 2 and onesided:
        ctx.unsupported("half a spectrum of a complex signal")
    if ctx.has_input(3):
        length = _integer(ctx, 3)
    else:
        length = known_shape(ctx, 2)[0] if ctx.has_input(2) else shape[1]
    frames: Integer = ctx.new_dim("frames")
    if isinstance(step, int) and step > 0:
        frames = ctx.symbols.divide(ctx.symbols.subtract(shape[1], length), step)
        frames = ctx.symbols.add(frames, 1)
    window = _optional(ctx, 2, ctx.dtype(0))
    args = [ctx.input(0), ctx.input(1), window, _optional(ctx, 3), int(onesided)]
    sizes = [shape[0], frames, _half(ctx, length) if onesided else length, 2]
    return call_packed(ctx, "moonpoly.op.stft", args, [sizes], [ctx.dtype(0)])


@converts("MelWeightMatrix")
def mel_weight_matrix(ctx: Context) -> Converted:
    """Sum up a spectrum's bins in triangles that are even by the mel scale."""
    sizes = [_half(ctx, _integer(ctx, 1)), _integer(ctx, 0)]
    edges = [ctx.emit(relax.op.astype(ctx.input(index), "float64")) for index in (3, 4)]
    args = [*(ctx.input(index) for index in range(3)), *edges]
    (result,) = call_packed(ctx, "moonpoly.op.mel_weight_matrix", args, [sizes], ["float64"])
    to = ctx.element_type("output_datatype", 1)
    return result if to == "float64" else relax.op.astype(result, to)
