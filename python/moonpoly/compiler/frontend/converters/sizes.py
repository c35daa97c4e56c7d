"""Sizes that depend on data: read from a tensor at run time, as dimensions of the module."""

from __future__ import annotations

import tvm
from tvm import relax

from moonpoly.compiler.frontend.graph.context import Context
from moonpoly.compiler.frontend.node.values import Integer


def read_dims(ctx: Context, sizes: relax.Expr, count: int, hint: str) -> list[tvm.tirx.Var]:
    """Read ``count`` sizes from a tensor of rank 1 at run time.

    They must not be negative: TVM takes every dimension for a natural number.
    """
    # What relax.op.tensor_to_shape becomes later, with a second set of dimensions in between.
    read = relax.op.call_pure_packed(
        "vm.builtin.tensor_to_shape", sizes, ty_args=[relax.ShapeType(ndim=count)]
    )
    shape = ctx.emit(read)
    dims = [ctx.new_dim(f"{hint}{index}") for index in range(count)]
    ctx.bb.match_cast(shape, relax.ShapeType(list(dims)))
    return dims


def known_shape(ctx: Context, operand: relax.Expr | int) -> tuple[Integer, ...]:
    """Return the sizes of an operand; refuse the node if its rank depends on data."""
    shape = ctx.shape(operand)
    if shape is None:
        ctx.unsupported("the shape of its input is not known, not even in symbols")
    return shape


def normal_axis(ctx: Context, axis: int, rank: int) -> int:
    """Return ``axis`` counted from the front; refuse the node if there is none such."""
    if not -rank <= axis < rank:
        ctx.unsupported(f"axis {axis} is not one of a tensor of rank {rank}")
    return axis % rank
