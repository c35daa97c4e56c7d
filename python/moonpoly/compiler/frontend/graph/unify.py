"""Giving operands the dimensions that an operator needs: equal ones, or broadcast ones."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import TYPE_CHECKING

import tvm
from tvm import relax, te, tirx

from moonpoly.compiler.frontend.node.values import Integer, is_symbolic
from moonpoly.compiler.frontend.symbolic.elements import as_expr

if TYPE_CHECKING:
    from moonpoly.compiler.frontend.dimensions.equalities import Equality
    from moonpoly.compiler.frontend.graph.context import Context

_REQUIRE_EQUAL = "moonpoly.op.require_equal"
_BROADCAST_DIMS = "moonpoly.op.broadcast_dims"


def check_equal(bb: relax.BlockBuilder, left: Integer, right: Integer, label: str) -> None:
    """Emit a check that two dimensions are equal, that no pass takes away."""
    checked = bb.emit(_call_on_dims(_REQUIRE_EQUAL, [left], [right], [label]))
    # A binding that defines symbols is kept, which an unused result is not.
    bb.match_cast(checked, relax.ShapeType([tirx.Var("checked", "int64")]))


def begin_with_checks(function: relax.Function, checks: Sequence[Equality]) -> relax.Function:
    """Return ``function`` with checks that dimensions of its parameters are equal put first."""
    call = _call_on_dims(
        _REQUIRE_EQUAL,
        [check.left for check in checks],
        [check.right for check in checks],
        [check.label for check in checks],
    )
    call = relax.BlockBuilder().normalize(call)
    checked = relax.DataflowVar("checked", call.ty)
    ty = relax.ShapeType([tirx.Var("checked", "int64") for _ in checks])
    cast = relax.MatchCast(relax.DataflowVar("checked_dims", ty), checked, ty)
    first, *rest = function.body.blocks
    block = relax.DataflowBlock([relax.VarBinding(checked, call), cast, *first.bindings])
    body = relax.SeqExpr([block, *rest], function.body.body)
    return relax.Function(function.params, body, function.ret_ty, function.is_pure, function.attrs)


def broadcast_dim(ctx: Context, left: Integer, right: Integer) -> Integer:
    """Return the dimension that two broadcast to; checked at run time where it isn't proven."""
    if _is_one(right) or ctx.symbols.equal(left, right):
        return left
    if _is_one(left):
        return right
    if not is_symbolic(left) and not is_symbolic(right):
        # A loop's body that is imported with sizes which it changes may be imported again.
        reason = f"dimensions {left} and {right} don't broadcast"
        ctx.unsupported(f"{reason}; its operands are {ctx.operands()}")
    known = ctx.walk.broadcasts.known(left, right)
    if known is not None:
        return known
    if _are_meant_equal(left, right):
        ctx.require_equal(left, right)
        return min((left, right), key=lambda dim: len(str(dim)))
    label = f"node {ctx.name!r} broadcasts {left} and {right}"
    found = ctx.emit(_call_on_dims(_BROADCAST_DIMS, [left], [right], [label]))
    made = ctx.new_dim("broadcast")
    ctx.bb.match_cast(found, relax.ShapeType([made]))
    winner = ctx.walk.broadcasts.winner(left, right)
    dim = made if winner is None else winner
    if winner is not None:
        check_equal(ctx.bb, made, winner, f"{label}, which must give {winner}")
    ctx.walk.broadcasts.remember(left, right, dim)
    return dim


def broadcast_shapes(ctx: Context, shapes: Sequence[Sequence[Integer]]) -> list[Integer]:
    """Return the shape that several broadcast to."""
    rank = max(len(shape) for shape in shapes)
    result: list[Integer] = [1] * rank
    for shape in shapes:
        for axis, dim in enumerate(shape, rank - len(shape)):
            result[axis] = broadcast_dim(ctx, result[axis], dim)
    return result


def broadcast_operands(
    ctx: Context, operands: Sequence[relax.Expr | None]
) -> list[relax.Expr | None]:
    """Return the operands with dimensions that Relax can tell to broadcast.

    A dimension that is not proven equal to the result's is read at position 0 where it is 1 at run
    time. Operands whose rank or shape depends on data are left as they are.
    """
    shapes = [None if operand is None else ctx.shape(operand) for operand in operands]
    known = [shape for shape in shapes if shape is not None]
    if len(known) != sum(operand is not None for operand in operands) or len(known) < 2:
        return list(operands)
    target = broadcast_shapes(ctx, known)
    return [
        operand if operand is None or shape is None else broadcast_to(ctx, operand, target)
        for operand, shape in zip(operands, shapes, strict=True)
    ]


def broadcast_to(ctx: Context, operand: relax.Expr, target: Sequence[Integer]) -> relax.Expr:
    """Return ``operand`` with the sizes of ``target`` where its own aren't 1 or proven equal."""
    shape = ctx.shape(operand)
    assert shape is not None, "the caller has looked"
    own = list(target[len(target) - len(shape) :])
    loose = [
        axis
        for axis, (dim, want) in enumerate(zip(shape, own, strict=True))
        if not _is_one(dim) and not ctx.symbols.equal(dim, want)
    ]
    if not loose:
        return operand
    sizes = [own[axis] if axis in loose else dim for axis, dim in enumerate(shape)]
    return ctx.call_te(_stretch, operand, [as_expr(size) for size in sizes], loose)


def retype(ctx: Context, operand: relax.Expr, shape: Sequence[Integer]) -> relax.Expr:
    """Return ``operand`` with dimensions that are checked to equal its own."""
    own = ctx.shape(operand)
    assert own is not None, "the caller has looked"
    if all(ctx.symbols.equal(a, b) for a, b in zip(own, shape, strict=True)):
        return operand
    return ctx.call_te(_stretch, operand, [as_expr(size) for size in shape], [])


def _stretch(data: te.Tensor, sizes: Sequence[tvm.ir.Expr], loose: Sequence[int]) -> te.Tensor:
    """Read ``data`` at ``sizes``; along ``loose`` axes it may be of size 1 instead."""

    def read(*position: tirx.Var) -> tvm.ir.Expr:
        index = [
            i * tirx.Select(tirx.EQ(data.shape[axis], sizes[axis]), as_expr(1), as_expr(0))
            if axis in loose
            else i
            for axis, i in enumerate(position)
        ]
        return data(*index)

    return te.compute(list(sizes), read, name="stretch")


def _call_on_dims(
    function: str,
    left: Sequence[Integer],
    right: Sequence[Integer],
    labels: Sequence[str],
) -> tvm.ir.Call:
    sides = [relax.ShapeExpr([as_expr(dim) for dim in side]) for side in (left, right)]
    text = tvm.ir.StringImm("\n".join(labels))
    ty = relax.ShapeType(ndim=len(left))
    return relax.call_pure_packed(function, *sides, text, ty_args=[ty])


def _is_one(dim: Integer) -> bool:
    return not is_symbolic(dim) and dim == 1


def _are_meant_equal(left: Integer, right: Integer) -> bool:
    """Return whether two dimensions are computed from the same ones, if in different ways."""
    if not is_symbolic(left) or not is_symbolic(right):
        return False
    sources = [set(tirx.analysis.undefined_vars(dim)) for dim in (left, right)]
    return operator.eq(*sources)
