"""Operators on images whose rarer forms TVM's converters take for the common ones."""

from __future__ import annotations

from tvm import relax

from moonpoly.compiler.frontend.context import Context
from moonpoly.compiler.frontend.converters.registry import converts

_VOLUME_RANK = 5


@converts("SpaceToDepth")
def space_to_depth(ctx: Context) -> relax.Expr | None:
    """Move blocks of pixels into channels; within a channel's block where the mode is CRD."""
    if ctx.attrs.get("mode", "DCR") == "DCR":
        return None
    data = ctx.input(0)
    shape = ctx.shape(data) if data is not None else None
    if data is None or shape is None:
        ctx.unsupported("the sizes of its input are not known")
    batch, channels, height, width = shape
    block = int(ctx.attrs["blocksize"])
    rows, columns = height // block, width // block
    blocks = ctx.emit(relax.op.reshape(data, (batch, channels, rows, block, columns, block)))
    moved = ctx.emit(relax.op.permute_dims(blocks, [0, 1, 3, 5, 2, 4]))
    return relax.op.reshape(moved, (batch, channels * block * block, rows, columns))


@converts("ConvTranspose")
def conv_transpose(ctx: Context) -> None:
    """Refuse the forms that would be computed wrongly."""
    data = ctx.input(0)
    if data is not None and ctx.rank(data) == _VOLUME_RANK:
        ctx.unsupported("it is over three dimensions; one and two are supported")
    if ctx.attrs.get("output_shape"):
        ctx.unsupported("it has an output_shape; give pads and output_padding instead")


@converts("RoiAlign")
def roi_align(ctx: Context) -> None:
    """Refuse the maximum, which would be taken of other samples than the standard's."""
    mode = ctx.attrs.get("mode", "avg")
    if mode != "avg":
        ctx.unsupported(f"it has the mode {mode!r}; 'avg' is supported")
