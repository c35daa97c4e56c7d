"""Products of dimensions, taken apart into the factors that two of them share."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import tvm
import tvm_ffi
from tvm import tirx

from moonpoly.compiler.frontend.node.values import is_symbolic


def cancel(left: Sequence[Any], right: Sequence[Any]) -> tuple[list[Any], list[Any]]:
    """Return two products of integers, each a list of factors, without what they share.

    The first factor of each list that is returned is a number. A product that holds the number 0
    shares nothing.
    """
    (a, own), (b, other) = _factors_of(left), _factors_of(right)
    if a == 0 or b == 0:
        return [a, *own], [b, *other]
    shared = math.gcd(a, b)
    rest = []
    for factor in other:
        match = next((i for i, f in enumerate(own) if tvm_ffi.structural_equal(f, factor)), None)
        if match is None:
            rest.append(factor)
        else:
            del own[match]
    return [a // shared, *own], [b // shared, *rest]


def _factors_of(items: Sequence[Any]) -> tuple[int, list[tvm.ir.Expr]]:
    number, factors = 1, []
    for item in items:
        part, more = _factorize(item)
        number *= part
        factors += more
    return number, factors


def _factorize(item: Any) -> tuple[int, list[tvm.ir.Expr]]:
    if not is_symbolic(item):
        return int(item), []
    if isinstance(item, tirx.IntImm):
        return int(item.value), []
    if isinstance(item, tirx.Mul):
        return _factors_of([item.a, item.b])
    if not isinstance(item, tirx.Add | tirx.Sub):
        return 1, [item]
    # What all terms of a sum are multiples of stands before it: 32 * n + 32 = 32 * (n + 1).
    terms = _terms(item, 1)
    parts = [(sign, *_factorize(term)) for sign, term in terms]
    common = math.gcd(*(number for _, number, _ in parts))
    if common <= 1:
        return 1, [item]
    total: Any = None
    for sign, number, factors in parts:
        term: Any = tirx.IntImm("int64", sign * number // common)
        for factor in factors:
            term = term * factor
        total = term if total is None else total + term
    return common, [tvm.sym.Analyzer().simplify(total)]


def _terms(item: tvm.ir.Expr, sign: int) -> list[tuple[int, tvm.ir.Expr]]:
    if isinstance(item, tirx.Add):
        return [*_terms(item.a, sign), *_terms(item.b, sign)]
    if isinstance(item, tirx.Sub):
        return [*_terms(item.a, sign), *_terms(item.b, -sign)]
    return [(sign, item)]
