"""What is known of values that cross the border of a function, or lie in a sequence."""

from __future__ import annotations

from dataclasses import replace

from tvm import relax

from moonpoly.compiler.frontend.graph.context import Context
from moonpoly.compiler.frontend.graph.subgraphs import Frame
from moonpoly.compiler.frontend.node.values import Integer, Outline, Value


def outline_of(ctx: Context, value: Value, frame: Frame | None = None) -> Outline:
    """Describe a value of the node's graph, or of the function that ``frame`` is of."""
    outline = value.item
    if outline is None:
        tensor = ctx.walk.tensor(value)
        outline = Outline(ctx.dtype(tensor), _dims_of(ctx, tensor))
    if outline.dims is None or frame is None:
        return outline
    dims = tuple(dim if frame.is_visible(dim) else None for dim in outline.dims)
    return replace(outline, dims=dims)


def _dims_of(ctx: Context, tensor: relax.Expr) -> tuple[Integer | None, ...] | None:
    shape, rank = ctx.shape(tensor), ctx.rank(tensor)
    if shape is not None:
        return shape
    return None if rank is None else (None,) * rank


def join(ctx: Context, left: Outline, right: Outline) -> Outline:
    """Describe what may be either.

    Raises
    ------
    UnsupportedError
        If nothing can be both, naming the node.
    """
    if left.is_sequence != right.is_sequence:
        ctx.unsupported("a result is a sequence in one case and a tensor in another")
    if left.is_sequence and "" in (left.dtype, right.dtype):
        # Nothing is known of the tensors of an empty sequence.
        return left if right.dtype == "" else right
    if left.dtype != right.dtype:
        ctx.unsupported(f"a result is {left.dtype} in one case and {right.dtype} in another")
    if left.dims is None or right.dims is None or len(left.dims) != len(right.dims):
        return replace(left, dims=None)
    dims = tuple(
        a if a is not None and b is not None and ctx.symbols.equal(a, b) else None
        for a, b in zip(left.dims, right.dims, strict=True)
    )
    return replace(left, dims=dims)


def bring_out(ctx: Context, result: relax.Expr, outline: Outline) -> Value:
    """Return a result with dimensions for the sizes that are found at run time."""
    if outline.is_sequence:
        return Value(expr=result, item=outline)
    if outline.dims is not None and None in outline.dims:
        hint = f"{ctx.op.lower()}_dim"
        dims = [ctx.new_dim(hint) if dim is None else dim for dim in outline.dims]
        return Value(expr=ctx.cast_shape(result, dims))
    return Value(expr=result)
