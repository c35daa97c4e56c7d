"""Single elements: numbers, expressions of dimensions, and ratios of such."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import tvm
from tvm import tirx

from moonpoly.compiler.frontend.node.values import is_symbolic

# Beyond these a ratio's exact arithmetic and float32's could part.
MAX_DENOMINATOR = 1 << 10
MAX_NUMERATOR = 1 << 10


@dataclass(frozen=True)
class Ratio:
    """A real number that is exactly an integer expression by an integer.

    Exporters compute sizes in floating point: ``floor(h * 0.5)``. As long as the factors are
    small powers of two, or there is one division by a small integer, floating point rounds no
    such value across an integer, and the exact ratio stands for it.
    """

    numerator: Any
    denominator: int


def as_expr(item: Any, like: Any = None) -> tvm.ir.Expr:
    """Return an element as an expression; a number takes the type of ``like``, or int64."""
    if is_symbolic(item):
        return item
    if like is not None and is_symbolic(like):
        return tirx.const(item, str(like.ty.dtype))
    if isinstance(item, bool):
        return tirx.const(item, "bool")
    return tirx.const(item, "float32" if isinstance(item, float) else "int64")


def as_real(item: Any) -> Any:
    """Return an element as a float32 expression, or a float."""
    if not is_symbolic(item):
        return float(item)
    if isinstance(item, Ratio):
        numerator = tirx.Cast("float32", as_expr(item.numerator))
        divisor = tirx.const(item.denominator, "float32")
        return numerator if item.denominator == 1 else tirx.div(numerator, divisor)
    return item if "float" in str(item.ty.dtype) else tirx.Cast("float32", item)


def is_real(item: Any) -> bool:
    """Return whether an element is of a floating-point type."""
    if isinstance(item, float | Ratio):
        return True
    return is_symbolic(item) and "float" in str(item.ty.dtype)


def as_ratio(item: Any) -> Ratio | None:
    """Return an element as an exact ratio, if it is a simple one."""
    if isinstance(item, Ratio):
        return item
    if not is_symbolic(item):
        if not math.isfinite(item):
            return None
        exact = Fraction(item)
        if exact.denominator > MAX_DENOMINATOR or abs(exact.numerator) > MAX_NUMERATOR:
            return None
        return Ratio(exact.numerator, exact.denominator)
    return None if is_real(item) else Ratio(item, 1)


def is_dyadic(ratio: Ratio | None) -> bool:
    """Return whether the denominator is a power of two."""
    return ratio is not None and ratio.denominator & (ratio.denominator - 1) == 0


def parts_of(ratio: Ratio) -> tuple[Any, int]:
    """Return numerator and denominator."""
    return ratio.numerator, ratio.denominator


def number_of(expr: tvm.ir.Expr) -> Any:
    """Return an expression, or the number that it is."""
    if isinstance(expr, tirx.IntImm):
        return bool(expr.value) if str(expr.ty.dtype) == "bool" else int(expr.value)
    return float(expr.value) if isinstance(expr, tirx.FloatImm) else expr
