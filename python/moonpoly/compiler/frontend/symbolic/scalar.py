"""Arithmetic on single elements, and what is known of the dimensions in them."""

from __future__ import annotations

import functools
import math
import operator
from collections.abc import Callable, Iterable
from fractions import Fraction
from typing import Any

import tvm
import tvm_ffi
from tvm import tirx

from moonpoly.compiler.frontend.node.values import is_symbolic
from moonpoly.compiler.frontend.symbolic.elements import (
    MAX_DENOMINATOR,
    MAX_NUMERATOR,
    Ratio,
    as_expr,
    as_ratio,
    as_real,
    is_dyadic,
    is_real,
    number_of,
    parts_of,
)
from moonpoly.compiler.frontend.symbolic.factors import cancel

# No dimension is larger; it keeps the analyzer's bounds clear of int64's.
_MAX_DIM = 1 << 31


class Symbols:
    """Simplifies expressions of dimensions, and proves what holds of them.

    A model's author means dimensions of at least 1, and without that little can be said of
    ``n - 1``. Where it makes a difference it is believed, and the dimensions are noted in
    ``positive``, so that a run with less is refused.
    """

    def __init__(self) -> None:
        self.positive: list[tirx.Var] = []
        self._cautious = tvm.sym.Analyzer()
        self._bold = tvm.sym.Analyzer()
        # Proofs take most of an import's time, and the same are asked for again and again.
        self._proven: dict[int, list[tuple[tvm.ir.Expr, bool]]] = {}

    def declare(self, var: tirx.Var, most: int | None = None, *, is_input: bool = False) -> None:
        """Say that ``var`` is a dimension, of at most ``most``, and whether of an input."""
        for analyzer, least in ((self._cautious, 0), (self._bold, int(is_input))):
            extent = (_MAX_DIM if most is None else most + 1) - least
            bounds = tvm.ir.Range.from_min_extent(_int64(least), _int64(extent))
            analyzer.bind(var, bounds)

    def simplify(self, item: Any) -> Any:
        """Return an element in its simplest form; one without symbols becomes a number."""
        if not is_symbolic(item) or isinstance(item, Ratio):
            return item
        cautious, bold = self._cautious.simplify(item), self._bold.simplify(item)
        if not tvm_ffi.structural_equal(cautious, bold):
            self._believe(item)
        return number_of(bold)

    def proves(self, condition: Any) -> bool:
        """Return whether a condition holds at all sizes."""
        if not is_symbolic(condition):
            return bool(condition)
        known = self._proven.setdefault(tvm_ffi.structural_hash(condition), [])
        for asked, answer in known:
            if tvm_ffi.structural_equal(asked, condition):
                return answer
        answer = self._prove(condition)
        known.append((condition, answer))
        return answer

    def _prove(self, condition: tvm.ir.Expr) -> bool:
        if self._cautious.can_prove(condition):
            return True
        if self._bold.can_prove(condition):
            self._believe(condition)
            return True
        return False

    def equal(self, left: Any, right: Any) -> bool:
        """Return whether two integer elements are equal at all sizes."""
        if not is_symbolic(left) and not is_symbolic(right):
            return bool(left == right)
        left, right = as_expr(left), as_expr(right)
        if left.same_as(right):
            return True
        if isinstance(left, tirx.Mul | tirx.Add) and isinstance(right, tirx.Mul | tirx.Add):
            own, other = cancel([left], [right])
            if own == [1] and other == [1]:
                return True
        return self.proves(tirx.EQ(left, right))

    def product(self, factors: Iterable[Any]) -> Any:
        """Return the product of integers."""
        return functools.reduce(self.multiply, factors, 1)

    def _believe(self, item: tvm.ir.Expr) -> None:
        for var in tirx.analysis.undefined_vars(item):
            if not any(var.same_as(known) for known in self.positive):
                self.positive.append(var)

    def add(self, left: Any, right: Any) -> Any:
        """Return the sum."""
        return self._linear(operator.add, left, right)

    def subtract(self, left: Any, right: Any) -> Any:
        """Return the difference."""
        return self._linear(operator.sub, left, right)

    def multiply(self, left: Any, right: Any) -> Any:
        """Return the product."""
        if not is_real(left) and not is_real(right):
            return self._apply(operator.mul, left, right)
        a, b = as_ratio(left), as_ratio(right)
        if a is None or b is None or not (is_dyadic(a) and is_dyadic(b)):
            return self._apply(operator.mul, as_real(left), as_real(right))
        numerator = self._apply(operator.mul, a.numerator, b.numerator)
        return self.reduce(Ratio(numerator, a.denominator * b.denominator))

    def divide(self, left: Any, right: Any) -> Any:
        """Return the quotient: of integers rounded to zero, as in C.

        Raises
        ------
        ZeroDivisionError
            If the divisor is zero.
        """
        if not is_real(left) and not is_real(right):
            return self._divide_integers(left, right)
        ratio = as_ratio(left)
        if ratio is not None and not is_symbolic(right) and float(right).is_integer():
            if 0 < abs(right) <= MAX_DENOMINATOR and is_dyadic(ratio):
                sign = -1 if right < 0 else 1
                numerator = self._apply(operator.mul, ratio.numerator, sign)
                return self.reduce(Ratio(numerator, ratio.denominator * abs(int(right))))
        elif ratio is not None and not is_symbolic(right):
            inverse = Fraction(1) / Fraction(right)
            if inverse.denominator == 1 and inverse.numerator <= MAX_NUMERATOR:
                return self.multiply(left, float(inverse.numerator))
        return self._apply(tirx.div, as_real(left), as_real(right))

    def _divide_integers(self, left: Any, right: Any) -> Any:
        if not is_symbolic(left) and not is_symbolic(right):
            quotient = abs(left) // abs(right)
            return quotient if (left < 0) == (right < 0) else -quotient
        own, other = cancel([left], [right])
        if len(other) == 1 and other[0] == 1:
            return self.product(own)
        left, right = self.product(own), self.product(other)
        nonnegative = self.proves(as_expr(left) >= 0) and self.proves(as_expr(right) >= 0)
        return self._apply(tirx.floordiv if nonnegative else tirx.truncdiv, left, right)

    def modulo(self, left: Any, right: Any) -> Any:
        """Return the remainder of integers, which has the divisor's sign."""
        if not is_symbolic(left) and not is_symbolic(right):
            return left % right
        return self._apply(tirx.floormod, left, right)

    def minimum(self, left: Any, right: Any) -> Any:
        """Return the smaller one."""
        return self._choose(operator.le, tirx.min, left, right)

    def maximum(self, left: Any, right: Any) -> Any:
        """Return the larger one."""
        return self._choose(operator.ge, tirx.max, left, right)

    def compare(self, relation: Callable[[Any, Any], Any], left: Any, right: Any) -> Any:
        """Return whether a relation holds: a bool, or an expression of one."""
        if not is_symbolic(left) and not is_symbolic(right):
            return bool(relation(left, right))
        if is_real(left) or is_real(right):
            a, b = as_ratio(left), as_ratio(right)
            if a is None or b is None:
                return self._apply(_relation(relation), as_real(left), as_real(right))
            left = self._apply(operator.mul, a.numerator, b.denominator)
            right = self._apply(operator.mul, b.numerator, a.denominator)
            return self.compare(relation, left, right)
        return self._apply(_relation(relation), left, right)

    def select(self, condition: Any, yes: Any, no: Any) -> Any:
        """Return one of two elements."""
        if not is_symbolic(condition):
            return yes if condition else no
        if is_real(yes) or is_real(no):
            yes, no = as_real(yes), as_real(no)
        return self.simplify(tirx.Select(condition, as_expr(yes), as_expr(no)))

    def negate(self, condition: Any) -> Any:
        """Return the opposite of a bool."""
        return self.simplify(tirx.Not(condition)) if is_symbolic(condition) else not condition

    def both(self, left: Any, right: Any) -> Any:
        """Return the conjunction of two bools."""
        if is_symbolic(left) and is_symbolic(right):
            return self.simplify(tirx.And(left, right))
        known, other = (right, left) if is_symbolic(left) else (left, right)
        return other if known else False

    def either(self, left: Any, right: Any) -> Any:
        """Return the disjunction of two bools."""
        return self.negate(self.both(self.negate(left), self.negate(right)))

    def floor(self, item: Any) -> Any:
        """Return the largest integer that is not above a real element, as a real one."""
        if not is_symbolic(item):
            return float(math.floor(item))
        if isinstance(item, Ratio):
            return self.reduce(Ratio(self._apply(tirx.floordiv, *parts_of(item)), 1))
        return tirx.floor(item)

    def ceil(self, item: Any) -> Any:
        """Return the smallest integer that is not below a real element, as a real one."""
        if not is_symbolic(item):
            return float(math.ceil(item))
        if isinstance(item, Ratio):
            numerator = self._apply(operator.add, item.numerator, item.denominator - 1)
            return Ratio(self._apply(tirx.floordiv, numerator, item.denominator), 1)
        return tirx.ceil(item)

    def to_integer(self, item: Any) -> Any:
        """Return a real element rounded to zero, a bool as 0 or 1."""
        if not is_symbolic(item):
            return int(item)
        if isinstance(item, Ratio):
            return self._divide_integers(*parts_of(item))
        if str(item.ty.dtype) == "int64":
            return item
        return self.simplify(tirx.Cast("int64", item))

    def to_real(self, item: Any) -> Any:
        """Return an integer element as a real one."""
        if not is_symbolic(item):
            return float(item)
        if is_real(item):
            return item
        return Ratio(self.to_integer(item), 1)

    def reduce(self, ratio: Ratio) -> Any:
        """Return a ratio in lowest terms, or a float if it holds no symbol."""
        numerator = ratio.numerator
        if not is_symbolic(numerator):
            return numerator / ratio.denominator
        while ratio.denominator > 1:
            step = _smallest_factor(ratio.denominator)
            if not self.proves(tirx.floormod(numerator, _int64(step)).equal(_int64(0))):
                break
            numerator = self._apply(tirx.floordiv, numerator, step)
            ratio = Ratio(numerator, ratio.denominator // step)
        return ratio

    def _linear(self, combine: Callable[[Any, Any], Any], left: Any, right: Any) -> Any:
        if not is_real(left) and not is_real(right):
            return self._apply(combine, left, right)
        a, b = as_ratio(left), as_ratio(right)
        if a is None or b is None or not (is_dyadic(a) and is_dyadic(b)):
            return self._apply(combine, as_real(left), as_real(right))
        denominator = math.lcm(a.denominator, b.denominator)
        parts = (
            self._apply(operator.mul, r.numerator, denominator // r.denominator) for r in (a, b)
        )
        return self.reduce(Ratio(self._apply(combine, *parts), denominator))

    def _choose(
        self, wins: Callable[[Any, Any], Any], choose: Callable[[Any, Any], Any], a: Any, b: Any
    ) -> Any:
        if isinstance(a, Ratio) or isinstance(b, Ratio):
            return self.select(self.compare(wins, a, b), a, b)
        if not is_symbolic(a) and not is_symbolic(b):
            return a if wins(a, b) else b
        return self._apply(choose, a, b)

    def _apply(self, combine: Callable[[Any, Any], Any], left: Any, right: Any) -> Any:
        if not is_symbolic(left) and not is_symbolic(right):
            if combine in (tirx.floordiv, tirx.truncdiv, tirx.div):
                return left // right if combine is tirx.floordiv else left / right
            return combine(left, right)
        return self.simplify(combine(as_expr(left, right), as_expr(right, left)))


def _smallest_factor(number: int) -> int:
    return next(step for step in range(2, number + 1) if number % step == 0)


def _relation(relation: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    # `==` on expressions compares their addresses; the others make expressions.
    named = {operator.eq: tirx.EQ, operator.ne: tirx.NE}
    return named.get(relation, relation)


def _int64(value: int) -> tirx.IntImm:
    return tirx.IntImm("int64", value)
