"""GatherBlockQuantized: rows of a table in blocks of integers, made real as they are read."""

from __future__ import annotations

import math
from collections.abc import Sequence

import tvm
from tvm import relax, te, tirx

from moonpoly.compiler.frontend.converters.indices import checked_indices
from moonpoly.compiler.frontend.converters.operand_shapes import sizes, with_sizes
from moonpoly.compiler.frontend.converters.quantized.quantization import byte_operand
from moonpoly.compiler.frontend.converters.registry import converts
from moonpoly.compiler.frontend.converters.sizes import normal_axis
from moonpoly.compiler.frontend.graph.context import Context

_TYPES = ("uint8", "int4", "uint4")


@converts("GatherBlockQuantized", domain="com.microsoft")
def _gather_block_quantized(ctx: Context) -> relax.Expr:
    """The table stays as the file has it: several numbers to a byte, if that is uint8.

    An index beyond the table is refused, as Gather's is; newer ONNX Runtimes give zeros for it.
    """
    if ctx.dtype(0) not in _TYPES:
        ctx.unsupported(f"a table of {ctx.dtype(0)}; {', '.join(_TYPES)} are supported")
    bits = ctx.attrs.get("bits", 4) if ctx.dtype(0) == "uint8" else 8
    if bits not in (2, 4, 8):
        ctx.unsupported(f"numbers of {bits} bits")
    table, scale, zero = (byte_operand(ctx, index) for index in (0, 2, 3))
    assert table is not None and scale is not None, "the checker wants them"
    packed = sizes(ctx, table)
    if not packed or not all(isinstance(size, int) for size in packed):
        ctx.unsupported("the sizes of the table must be known")
    shape = [*map(int, packed[:-1]), int(packed[-1]) * (8 // bits)]
    axis = normal_axis(ctx, ctx.attrs.get("gather_axis", 0), len(shape))
    blocks_axis = normal_axis(ctx, ctx.attrs.get("quantize_axis", 1), len(shape))
    block = ctx.attrs.get("block_size", 128)
    if axis == blocks_axis and bits < 8:
        ctx.unsupported("gather_axis and quantize_axis are the same axis of packed numbers")
    indices = checked_indices(ctx, 1, shape[axis : axis + 1])
    blocks = list(shape)
    blocks[blocks_axis] = math.ceil(shape[blocks_axis] / block)
    scale = with_sizes(ctx, scale, blocks)
    default = 1 << (bits - 1) if ctx.dtype(0) == "uint8" else 0
    if zero is not None:
        zero = with_sizes(ctx, zero, [*blocks[:-1], math.ceil(blocks[-1] * bits / 8)])

    def gather(
        table: te.Tensor, indices: te.Tensor, scale: te.Tensor, *zeros: te.Tensor
    ) -> te.Tensor:
        rank = len(indices.shape)

        def element(*at: tvm.ir.Expr) -> tvm.ir.Expr:
            place = [*at[:axis], indices(*at[axis : axis + rank]), *at[axis + rank :]]
            of_block = list(place)
            of_block[blocks_axis] = of_block[blocks_axis] // block
            value = _field(table, place, bits)
            base = _field(zeros[0], of_block, bits) if zeros else tirx.IntImm("int32", default)
            real = tirx.Cast("float32", value - base) * tirx.Cast("float32", scale(*of_block))
            return tirx.Cast(scale.dtype, real)

        extents = [*shape[:axis], *indices.shape, *shape[axis + 1 :]]
        return te.compute(extents, element, name="gather_blocks")

    return ctx.call_te(gather, table, indices, scale, *([] if zero is None else [zero]))


def _field(tensor: te.Tensor, place: Sequence[tvm.ir.Expr], bits: int) -> tvm.ir.Expr:
    """Return a number of ``bits`` as int32; a byte has several of the last axis, lowest first."""
    if bits == 8:
        return tirx.Cast("int32", tensor(*place))
    share = 8 // bits
    byte = tirx.Cast("int32", tensor(*place[:-1], place[-1] // share))
    shift = tirx.Cast("int32", place[-1] % share) * bits
    return (byte >> shift) & ((1 << bits) - 1)
