"""Dimensions that the graph needs to be equal, although the model gives them different names.

What is learned while a graph is walked is put to use by walking it again: an input's dimension that
equals an expression of others is replaced by it, so that the module has one name for it. Other
pairs are constraints. Either is checked when the model runs, and never only believed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import tvm
import tvm_ffi
from tvm import relax, tirx

from moonpoly.compiler.frontend.node.values import Integer, is_symbolic, substitute
from moonpoly.compiler.frontend.symbolic.elements import as_expr
from moonpoly.compiler.frontend.symbolic.scalar import Symbols


@dataclass(frozen=True)
class Equality:
    """Two dimensions that must be equal, in the symbols of the model's inputs.

    Parameters
    ----------
    left, right
        Sizes or expressions.
    label
        The node that needs it.
    """

    left: Integer
    right: Integer
    label: str


def upper_bound(equality: Equality) -> tuple[tirx.Var, int] | None:
    """Return the dimension that ``n = min(n, 512)`` bounds, and by what; None of others."""
    for one, other in ((equality.left, equality.right), (equality.right, equality.left)):
        if isinstance(one, tirx.Var) and isinstance(other, tirx.Min):
            for limit, inner in ((other.a, other.b), (other.b, other.a)):
                if isinstance(limit, tirx.IntImm) and _same(inner, one):
                    return one, int(limit.value)
    return None


class Equalities:
    """What is known, and what is learned, of equal dimensions.

    Parameters
    ----------
    params
        The main function's parameters, each dimension under the model's own name.
    fixed
        Symbol's name → the only size that it is to have.
    """

    def __init__(self, params: Sequence[relax.Var], fixed: Mapping[str, int]) -> None:
        self.learned: list[Equality] = []
        self.has_grown = False
        self._inputs = list(params)
        self._replaced: dict[tirx.Var, tvm.ir.Expr] = {}
        # The pairs of dimensions of which one is known to be what they broadcast to.
        self._winners: list[tuple[Integer, Integer, Integer]] = []
        self._order = _plain_symbols(params)
        for var in self._order:
            if var.name in fixed:
                self._replaced[var] = tirx.IntImm("int64", fixed[var.name])

    def params(self) -> list[relax.Var]:
        """Return the parameters, each dimension that was learned replaced by what it equals."""
        return [
            relax.Var(param.name, relax.TensorType(self._dims(param), str(param.ty.dtype)))
            for param in self._inputs
        ]

    def _dims(self, param: relax.Var) -> list[tvm.ir.Expr]:
        return [as_expr(substitute(dim, self._replaced)) for dim in param.ty.shape.values]

    def checks(self, positive: Sequence[tirx.Var]) -> list[Equality]:
        """Return what a run has to check because the parameters' types don't say it.

        Parameters
        ----------
        positive
            Dimensions that are believed to be at least 1.
        """
        held = [
            Equality(
                self._resolve(each.left),
                self._resolve(each.right),
                f"{each.left} and {each.right} must be equal (node {each.label!r})",
            )
            for each in self.learned
            if not self._is_replaced(each)
        ]
        least = [
            Equality(var, tirx.max(var, tirx.IntImm("int64", 1)), f"{var.name} must be at least 1")
            for var in positive
        ]
        return held + least

    def bound(self, var: tirx.Var) -> int | None:
        """Return the largest size that a dimension is learned to have, or None."""
        found = [upper_bound(each) for each in self.learned]
        return min(
            (most for each in found if each for dim, most in [each] if _same(dim, var)),
            default=None,
        )

    def is_input(self, dim: Integer) -> bool:
        """Return whether a dimension is a function of the inputs' dimensions."""
        return all(var in self._order for var in _symbols_of(dim))

    def learn(self, left: Integer, right: Integer, label: str) -> None:
        """Remember that two dimensions of the inputs are equal; the next walk makes use of it."""
        if any(
            (_same(left, e.left) and _same(right, e.right))
            or (_same(left, e.right) and _same(right, e.left))
            for e in self.learned
        ):
            return
        bounds = [self.bound(var) for var in (left, right) if isinstance(var, tirx.Var)]
        self.learned.append(Equality(left, right, label))
        if bounds != [self.bound(var) for var in (left, right) if isinstance(var, tirx.Var)]:
            self.has_grown = True
            return
        for var, expr in sorted(
            ((a, b) for a, b in ((left, right), (right, left)) if self._can_replace(a, b)),
            key=lambda pair: -self._order[pair[0]],
        ):
            image = as_expr(self._resolve(expr))
            if var in self._replaced or var in _symbols_of(image):
                continue
            swap = {var: image}
            for other, old in self._replaced.items():
                self._replaced[other] = as_expr(substitute(old, swap))
            self._replaced[var] = image
            self.has_grown = True
            return

    def learn_winner(self, left: Integer, right: Integer, winner: Integer) -> None:
        """Remember what two dimensions broadcast to."""
        if self.winner(left, right) is None:
            self._winners.append((left, right, winner))
            self.has_grown = True

    def winner(self, left: Integer, right: Integer) -> Integer | None:
        """Return what two dimensions are known to broadcast to, or None."""
        for a, b, winner in self._winners:
            if (_same(a, left) and _same(b, right)) or (_same(a, right) and _same(b, left)):
                return winner
        return None

    def _can_replace(self, var: Integer, expr: Integer) -> bool:
        return (
            isinstance(var, tirx.Var)
            and var in self._order
            and self.is_input(expr)
            and var not in _symbols_of(expr)
        )

    def _is_replaced(self, equality: Equality) -> bool:
        left, right = self._resolve(equality.left), self._resolve(equality.right)
        return _same(left, right) or Symbols().equal(left, right)

    def _resolve(self, dim: Integer) -> Integer:
        return substitute(dim, self._replaced)


class Broadcasts:
    """The dimensions that others broadcast to, one for each set of them.

    Parameters
    ----------
    equalities
        Where it is kept that one of the set is the result, for the next walk.
    symbols
        What proves dimensions equal.
    """

    def __init__(self, equalities: Equalities, symbols: Symbols) -> None:
        self._equalities = equalities
        self._symbols = symbols
        # Each result with all that broadcast to it, through others as well.
        self._made: list[tuple[Integer, tuple[Integer, ...], tuple[Integer, Integer]]] = []

    def known(self, left: Integer, right: Integer) -> Integer | None:
        """Return what two dimensions broadcast to if that needs no further check, or None."""
        sources = (*self._sources(left), *self._sources(right))
        for dim, members, _ in self._made:
            inside = all(any(_same(each, member) for member in members) for each in sources)
            if inside and all(any(_same(each, member) for each in sources) for member in members):
                return dim
        for one, other in ((left, right), (right, left)):
            members = self._sources(one)
            if len(members) > 1 and all(
                any(_same(each, member) for member in members) for each in self._sources(other)
            ):
                return one
        return None

    def winner(self, left: Integer, right: Integer) -> Integer | None:
        """Return the one of two dimensions that the last walk found to be the result, or None."""
        return self._equalities.winner(left, right)

    def remember(self, left: Integer, right: Integer, dim: Integer) -> None:
        """Say that ``dim`` is what two dimensions broadcast to, as is checked at run time."""
        members = (*self._sources(left), *self._sources(right))
        self._made.append((dim, members, (left, right)))

    def learn(self, left: Integer, right: Integer) -> bool:
        """Say that a result must equal one that broadcast to it; return whether that was new."""
        for dim, other in ((left, right), (right, left)):
            for made, _, pair in self._made:
                is_one_of = _same(made, dim) and any(_same(each, other) for each in pair)
                # What is found at run time has another symbol in the next walk.
                lasts = all(map(self._equalities.is_input, pair))
                if is_one_of and lasts and self.winner(*pair) is None:
                    self._equalities.learn_winner(*pair, other)
                    return True
        return False

    def _sources(self, dim: Integer) -> tuple[Integer, ...]:
        return next((members for made, members, _ in self._made if _same(made, dim)), (dim,))


def _plain_symbols(params: Sequence[relax.Var]) -> Mapping[tirx.Var, int]:
    """Return the symbols that stand alone as a dimension of an input, numbered in order."""
    found: dict[tirx.Var, int] = {}
    for param in params:
        for dim in param.ty.shape.values:
            if isinstance(dim, tirx.Var):
                found.setdefault(dim, len(found))
    return found


def _symbols_of(dim: Integer) -> list[tirx.Var]:
    return list(tirx.analysis.undefined_vars(dim)) if is_symbolic(dim) else []


def _same(left: Integer, right: Integer) -> bool:
    if is_symbolic(left) != is_symbolic(right):
        return False
    if not is_symbolic(left):
        return bool(left == right)
    return bool(tvm_ffi.structural_equal(left, right))
