"""Running sums and products."""

from __future__ import annotations

from tvm import relax

from moonpoly.compiler.frontend.converters.registry import converts
from moonpoly.compiler.frontend.converters.sizes import known_shape
from moonpoly.compiler.frontend.graph.context import Context

_TYPES = ("float32", "float64", "int32", "int64", "uint32", "uint64")


@converts("CumSum", "CumProd")
def _cumulate(ctx: Context) -> relax.Expr:
    """Run along an axis, which may be known at run time only."""
    known_shape(ctx, 0)
    data, dtype = ctx.input(0), ctx.dtype(0)
    assert data is not None, "the checker wants a first input"
    if dtype not in _TYPES:
        ctx.unsupported(f"running over {dtype}; {', '.join(_TYPES)} are supported")
    flags = (ctx.attrs.get("exclusive", 0), ctx.attrs.get("reverse", 0), ctx.op == "CumProd")
    args = relax.Tuple([data, ctx.input(1), *(relax.prim_value(int(flag)) for flag in flags)])
    return ctx.emit(relax.op.call_dps_packed("moonpoly.op.cumulate", args, data.ty))
