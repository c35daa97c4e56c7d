"""What every converter of an operator may rely on: operands whose sizes fit, as far as is known."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from tvm import relax

from moonpoly.compiler.frontend.converters.images.auto_pad import resolve_auto_pad, resolve_pool
from moonpoly.compiler.frontend.graph.unify import (
    broadcast_dim,
    broadcast_operands,
    broadcast_to,
    retype,
)
from moonpoly.compiler.frontend.model.standard import STANDARD_DOMAINS
from moonpoly.error import ModelError

if TYPE_CHECKING:
    from moonpoly.compiler.frontend.graph.context import Context

_BROADCASTING = frozenset(
    {
        *("Add", "And", "BitShift", "BitwiseAnd", "BitwiseOr", "BitwiseXor", "Div", "Equal"),
        *("Greater", "GreaterOrEqual", "Less", "LessOrEqual", "Max", "Mean", "Min", "Mod"),
        *("Mul", "Or", "Pow", "Sub", "Sum", "Where", "Xor"),
    }
)
# Operators whose operands, all of them, are of one element type.
_ONE_TYPE = (_BROADCASTING - {"BitShift", "Pow", "Where"}) | {"Concat", "Conv", "Gemm", "MatMul"}


def fit_operands(ctx: Context) -> None:
    """Give a node's operands sizes that fit each other; what isn't proven is checked at run time.

    Raises
    ------
    UnsupportedError
        If sizes that are known don't fit.
    ModelError
        If the operands' types or sizes contradict the operator.
    """
    if ctx.domain not in STANDARD_DOMAINS:
        return
    if ctx.op in _ONE_TYPE:
        _check_types(ctx)
    if ctx.op in _BROADCASTING:
        fit: Callable[[Context], None] | None = _fit_broadcast
    else:
        fit = _FITTERS.get(ctx.op)
    if fit is not None:
        fit(ctx)


def _check_types(ctx: Context) -> None:
    """Refuse operands of different element types, naming the tensors."""
    named = [
        (name, ctx.dtype(index))
        for index, name in enumerate(ctx.node.input)
        if ctx.has_input(index)
    ]
    first, *others = named
    for name, dtype in others:
        if dtype != first[1]:
            raise ModelError(
                f"{ctx.describe()}: its operands must be of one type, but {first[0]!r} is "
                f"{first[1]} and {name!r} is {dtype}; export the model again"
            )


def _fit_broadcast(ctx: Context) -> None:
    # Operators before opset 7 say by an attribute what is broadcast.
    if "axis" not in ctx.attrs:
        ctx.inputs = broadcast_operands(ctx, ctx.inputs)


def _fit_matmul(ctx: Context) -> None:
    left, right = ctx.inputs[0], ctx.inputs[1]
    assert left is not None and right is not None, "the checker wants two operands"
    shapes = ctx.shape(left), ctx.shape(right)
    if shapes[0] is None or shapes[1] is None or not shapes[0] or not shapes[1]:
        return
    a, b = list(shapes[0]), list(shapes[1])
    inner = 0 if len(b) == 1 else len(b) - 2
    ctx.require_equal(a[-1], b[inner])
    b[inner] = a[-1]
    for position in range(3, min(len(a), len(b)) + 1):
        dim = broadcast_dim(ctx, a[-position], b[-position])
        a[-position] = dim if a[-position] != 1 else 1
        b[-position] = dim if b[-position] != 1 else 1
    ctx.inputs = [
        broadcast_to(ctx, left, a),
        retype(ctx, broadcast_to(ctx, right, [*b[:-2], *shapes[1][-2:]]), b),
    ]


def _fit_gemm(ctx: Context) -> None:
    left, right, *rest = ctx.inputs
    assert left is not None and right is not None, "the checker wants two operands"
    a, b = ctx.shape(left), ctx.shape(right)
    if a is None or b is None or len(a) != 2 or len(b) != 2:
        return
    m, inner = reversed(a) if ctx.attrs.get("transA", 0) else a
    other, n = reversed(b) if ctx.attrs.get("transB", 0) else b
    ctx.require_equal(inner, other)
    sizes = (n, inner) if ctx.attrs.get("transB", 0) else (inner, n)
    bias = rest[0] if rest else None
    if bias is not None and ctx.shape(bias) is not None:
        bias = broadcast_to(ctx, bias, [m, n])
    ctx.inputs = [left, retype(ctx, right, sizes), *([bias] if rest else [])]


def _fit_concat(ctx: Context) -> None:
    shapes = [None if operand is None else ctx.shape(operand) for operand in ctx.inputs]
    first = shapes[0]
    if first is None or any(shape is None or len(shape) != len(first) for shape in shapes):
        return
    axis = ctx.attrs["axis"] % len(first)
    fitted: list[relax.Expr | None] = [ctx.inputs[0]]
    for operand, shape in zip(ctx.inputs[1:], shapes[1:], strict=True):
        assert operand is not None and shape is not None
        for position, (want, dim) in enumerate(zip(first, shape, strict=True)):
            if position != axis:
                ctx.require_equal(want, dim)
        fitted.append(retype(ctx, operand, [*first[:axis], shape[axis], *first[axis + 1 :]]))
    ctx.inputs = fitted


_FITTERS: dict[str, Callable[[Context], None]] = {
    "AveragePool": resolve_pool,
    "Concat": _fit_concat,
    "Conv": resolve_auto_pad,
    "Gemm": _fit_gemm,
    "LpPool": resolve_auto_pad,
    "MatMul": _fit_matmul,
    "MaxPool": resolve_pool,
}
