"""Conversions between element types."""

from __future__ import annotations

from tvm import relax

from moonpoly.compiler.frontend.converters.registry import converts
from moonpoly.compiler.frontend.graph.context import Context

# Types that generated code computes with. The narrow floats have rules for what doesn't fit that
# no instruction of x86 follows, and several elements of the narrow integers share a byte.
_TYPES = frozenset(
    {
        *("bfloat16", "bool", "float16", "float32", "float64"),
        *("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"),
    }
)


@converts("Cast")
def _cast(ctx: Context) -> relax.Expr:
    return _convert(ctx, ctx.element_type("to"))


@converts("CastLike")
def _cast_like(ctx: Context) -> relax.Expr:
    return _convert(ctx, ctx.dtype(1))


def _convert(ctx: Context, target: str) -> relax.Expr:
    source = ctx.dtype(0)
    for dtype in (source, target):
        if dtype not in _TYPES:
            ctx.unsupported(f"it converts {source} to {target}; {dtype} is not supported")
    data = ctx.input(0)
    if source == target:
        return data
    if target == "bool":
        return ctx.emit(relax.op.not_equal(data, relax.const(0, source)))
    return ctx.emit(relax.op.astype(data, target))
