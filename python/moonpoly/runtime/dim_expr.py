"""Expressions of dimensions, as a model's metadata holds them: evaluated and written out."""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping
from typing import TypeAlias

# A number, a dimension's name, or an operator with two operands.
DimExpr: TypeAlias = "int | str | list[DimExpr]"

_OPERATIONS: dict[str, Callable[[int, int], int]] = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "//": operator.floordiv,
    "%": operator.mod,
    "min": min,
    "max": max,
}


def evaluate(expr: DimExpr, sizes: Mapping[int | str, int]) -> int | None:
    """Return the value of an expression, or None if it names a dimension that has no size."""
    if isinstance(expr, int):
        return expr
    if isinstance(expr, str):
        return sizes.get(expr)
    name, *operands = expr
    left, right = (evaluate(operand, sizes) for operand in operands)
    if left is None or right is None:
        return None
    return _OPERATIONS[str(name)](left, right)


def names_in(expr: DimExpr) -> list[str]:
    """Return the dimensions that an expression names, each once, as they come."""
    if isinstance(expr, str):
        return [expr]
    if not isinstance(expr, list):
        return []
    return list(dict.fromkeys(name for operand in expr[1:] for name in names_in(operand)))


def spell(expr: DimExpr) -> str:
    """Write an expression as Python has it."""
    if not isinstance(expr, list):
        return str(expr)
    name, *operands = expr
    left, right = (_in_brackets(operand) for operand in operands)
    if name in ("min", "max"):
        return f"{name}({spell(operands[0])}, {spell(operands[1])})"
    return f"{left} {name} {right}"


def _in_brackets(expr: DimExpr) -> str:
    is_infix = isinstance(expr, list) and expr[0] not in ("min", "max")
    return f"({spell(expr)})" if is_infix else spell(expr)
