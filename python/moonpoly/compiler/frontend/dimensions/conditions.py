"""What a model asks of its inputs' dimensions, in the words of the ONNX file."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import tvm
from tvm import tirx

from moonpoly.compiler.frontend.dimensions.equalities import Equality, upper_bound
from moonpoly.compiler.frontend.node.values import Integer, is_symbolic

# A number, a dimension's name, or an operator with its operands, as JSON can hold it.
Tree: TypeAlias = "int | str | list[int | str | list]"

_OPERATORS = {
    tirx.Add: "+",
    tirx.Sub: "-",
    tirx.Mul: "*",
    tirx.FloorDiv: "//",
    tirx.FloorMod: "%",
    tirx.Min: "min",
    tirx.Max: "max",
}


@dataclass(frozen=True)
class Conditions:
    """What is checked of the inputs before a run.

    The module checks the same, and what can't be said here, when it runs.

    Parameters
    ----------
    equal
        Pairs of expressions of dimensions that must be equal.
    at_most, at_least
        Dimension → its largest and smallest size.
    stated
        Expression that the file has for an input's dimension, as written there → what it says.
    """

    equal: tuple[tuple[Tree, Tree], ...] = ()
    at_most: Mapping[str, int] | None = None
    at_least: Mapping[str, int] | None = None
    stated: Mapping[str, Tree] | None = None


def find_conditions(
    learned: Sequence[Equality],
    positive: Sequence[tirx.Var],
    dim_names: Mapping[str, str],
    inputs: Iterable[tuple[int | str, tvm.ir.Expr]],
) -> Conditions:
    """Return what was learned of dimensions, under the names of the ONNX file.

    Parameters
    ----------
    learned
        Dimensions that the graph needs to be equal.
    positive
        Symbols that must be at least 1.
    dim_names
        Symbol → symbolic dimension's name in the ONNX file.
    inputs
        Every dimension of the inputs, as the file has it, and in the Relax function.
    """
    equal: list[tuple[Tree, Tree]] = []
    at_most: dict[str, int] = {}
    for each in learned:
        bound = upper_bound(each)
        if bound is not None:
            name = dim_names[bound[0].name]
            at_most[name] = min(bound[1], at_most.get(name, bound[1]))
            continue
        left, right = (_tree(dim, dim_names) for dim in (each.left, each.right))
        if left is not None and right is not None and (left, right) not in equal:
            equal.append((left, right))
    at_least = {dim_names[var.name]: 1 for var in positive if var.name in dim_names}
    names = set(dim_names.values())
    said = {
        text: _tree(dim, dim_names)
        for text, dim in inputs
        if isinstance(text, str) and text not in names
    }
    stated = {text: tree for text, tree in said.items() if tree is not None}
    return Conditions(tuple(equal), at_most, at_least, stated)


def _tree(dim: Integer, dim_names: Mapping[str, str]) -> Tree | None:
    if not is_symbolic(dim):
        return int(dim)
    if isinstance(dim, tirx.IntImm):
        return int(dim.value)
    if isinstance(dim, tirx.Var):
        return dim_names.get(dim.name)
    operator = _OPERATORS.get(type(dim))
    if operator is None:
        return None
    assert not isinstance(dim, int), "it has an operator"
    operands = [_tree(operand, dim_names) for operand in (dim.a, dim.b)]
    known = [operand for operand in operands if operand is not None]
    return [operator, *known] if len(known) == len(operands) else None
