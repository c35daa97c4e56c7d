"""Walk and rebuild TIR expressions, one node at a time."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

import tvm
from tvm import tirx
from tvm.ir import Call, Expr, TensorLoad, Var
from tvm.ir.prim.expr import BinaryOpExpr, CmpExpr

from moonpoly.error import UnsupportedError

INDEX_DTYPE = "int64"


def int64(value: int) -> Expr:
    """Return a 64-bit integer constant."""
    return tirx.IntImm(INDEX_DTYPE, value)


def int32(value: int) -> Expr:
    """Return a 32-bit integer constant."""
    return tirx.IntImm("int32", value)


def scalar_dtype(expr: Expr) -> str:
    """Return the dtype of one lane of ``expr``."""
    return str(expr.ty.dtype).split("x")[0]


def num_lanes(expr: Expr) -> int:
    """Return how many lanes ``expr`` has; 1 for a scalar."""
    return int(expr.ty.dtype.lanes)


def vector_dtype(dtype: str, lanes: int) -> str:
    """Return the spelling of a vector of ``lanes`` elements of ``dtype``."""
    return dtype if lanes == 1 else f"{dtype}x{lanes}"


def is_integer(expr: Expr) -> bool:
    """Whether the lanes of ``expr`` are integers or booleans."""
    return scalar_dtype(expr).startswith(("int", "uint", "bool"))


def constant_int(expr: Expr) -> int | None:
    """Return the value of an integer constant, ``None`` for anything else."""
    return int(expr.value) if isinstance(expr, tirx.IntImm) else None


def is_binary(expr: Expr) -> bool:
    """Whether ``expr`` is arithmetic, bitwise, comparing or logical on two operands."""
    return isinstance(expr, (BinaryOpExpr, CmpExpr, tirx.And, tirx.Or))


def children(expr: Expr) -> Iterator[Expr]:
    """Yield the operands of ``expr``; of a load, its indices."""
    if is_binary(expr):
        yield expr.a
        yield expr.b
    elif isinstance(expr, (tirx.Cast, tirx.Broadcast)):
        yield expr.value
    elif isinstance(expr, (tirx.Not, tirx.BitwiseNot)):
        yield expr.a
    elif isinstance(expr, tirx.Select):
        yield expr.condition
        yield expr.true_value
        yield expr.false_value
    elif isinstance(expr, TensorLoad):
        yield from expr.indices
    elif isinstance(expr, Call):
        yield from expr.args


def rebuild(expr: Expr, operands: list[Expr]) -> Expr:
    """Return ``expr`` with other operands, in the order of ``children``.

    The lanes of the result follow the operands, which must agree with each other.
    """
    if is_binary(expr):
        return type(expr)(*operands)
    if isinstance(expr, tirx.Cast):
        dtype = vector_dtype(str(expr.ty.dtype), num_lanes(operands[0]))
        return tirx.Cast(dtype, operands[0])
    if isinstance(expr, (tirx.Not, tirx.BitwiseNot)):
        return type(expr)(operands[0])
    if isinstance(expr, tirx.Select):
        return tirx.Select(*operands)
    if isinstance(expr, TensorLoad):
        return tirx.BufferLoad(expr.source, operands)
    if isinstance(expr, Call):
        lanes = max((num_lanes(operand) for operand in operands), default=1)
        dtype = vector_dtype(scalar_dtype(expr), lanes)
        return tirx.op.call_intrin(dtype, expr.op.name, *operands)
    raise UnsupportedError(f"expected a known kind of expression, got {type(expr).__name__}")


def substitute(expr: Expr, env: Mapping[Var, Expr]) -> Expr:
    """Replace variables by expressions, everywhere in ``expr``."""
    return rewrite(expr, lambda node: env.get(node) if isinstance(node, Var) else None)


def rewrite(expr: Expr, replace: Callable[[Expr], Expr | None]) -> Expr:
    """Rebuild ``expr`` from the top, stopping where ``replace`` gives something."""
    if (replaced := replace(expr)) is not None:
        return replaced
    old = list(children(expr))
    if not old:
        return expr
    new = [rewrite(operand, replace) for operand in old]
    if all(before.same_as(after) for before, after in zip(old, new, strict=True)):
        return expr
    return rebuild(expr, new)


def uses(expr: Expr, var: Var) -> bool:
    """Whether ``var`` occurs in ``expr``."""
    if isinstance(expr, Var):
        return bool(expr.same_as(var))
    return any(uses(operand, var) for operand in children(expr))


def variables(expr: Expr) -> Iterator[Var]:
    """Yield every occurrence of a variable in ``expr``, buffers excepted."""
    if isinstance(expr, Var):
        yield expr
    for operand in children(expr):
        yield from variables(operand)


def loads(expr: Expr) -> Iterator[TensorLoad]:
    """Yield every load in ``expr``, those inside indices included."""
    if isinstance(expr, TensorLoad):
        yield expr
    for operand in children(expr):
        yield from loads(operand)


def fingerprint(expr: Expr) -> object:
    """Return a hashable key that is equal for structurally equal expressions."""
    if isinstance(expr, (tirx.IntImm, tirx.FloatImm)):
        return (str(expr.ty.dtype), expr.value)
    if isinstance(expr, Var):
        return expr.__chandle__()
    head: object = type(expr).__name__
    if isinstance(expr, TensorLoad):
        head = ("load", expr.source.__chandle__())
    elif isinstance(expr, Call):
        head = ("call", expr.op.name)
    elif isinstance(expr, tirx.Cast):
        head = ("cast", str(expr.ty.dtype))
    return (head, *(fingerprint(operand) for operand in children(expr)))


def product(factors: list[Expr]) -> Expr:
    """Return the product of 64-bit integers; 1 of none."""
    result = int64(1)
    for factor in factors:
        result = result * factor
    return tvm.sym.Analyzer().simplify(result)
