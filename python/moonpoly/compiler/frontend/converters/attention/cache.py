"""TensorScatter: rows written into a cache at a place of each sequence's own."""

from __future__ import annotations

import tvm
from tvm import relax, te, tirx

from moonpoly.compiler.frontend.converters.operand_shapes import sizes, with_sizes
from moonpoly.compiler.frontend.converters.registry import converts
from moonpoly.compiler.frontend.graph.context import Context


@converts("TensorScatter")
def _tensor_scatter(ctx: Context) -> relax.Expr:
    cache, update, begin = ctx.input(0), ctx.input(1), ctx.input(2)
    assert cache is not None, "the checker wants a cache"
    assert update is not None, "the checker wants an update"
    shape, new = sizes(ctx, cache), sizes(ctx, update)
    axis = ctx.attrs.get("axis", -2)
    axis += len(shape) if axis < 0 else 0
    if not 0 < axis < len(shape):
        ctx.unsupported(f"axis {ctx.attrs.get('axis', -2)} of {len(shape)} dimensions")
    mode = ctx.attrs.get("mode", "linear")
    if mode not in ("linear", "circular"):
        ctx.unsupported(f"mode {mode!r}")
    update = with_sizes(ctx, update, [*shape[:axis], new[axis], *shape[axis + 1 :]])

    def scatter(cache: te.Tensor, update: te.Tensor, *begin: te.Tensor) -> te.Tensor:
        count, whole = update.shape[axis], cache.shape[axis]

        def element(*at: tvm.ir.Expr) -> tvm.ir.Expr:
            place = at[axis]
            if begin:
                place = place - tirx.Cast("int64", begin[0](at[0]))
            if mode == "circular":
                place = tirx.floormod(place, whole)
            inside = tirx.all(place >= 0, place < count)
            own = [*at[:axis], place, *at[axis + 1 :]]
            return tirx.if_then_else(inside, update(*own), cache(*at))

        return te.compute(cache.shape, element, name="tensor_scatter")

    if begin is not None:
        begin = with_sizes(ctx, begin, [shape[0]])
    return ctx.call_te(scatter, cache, update, *([] if begin is None else [begin]))
