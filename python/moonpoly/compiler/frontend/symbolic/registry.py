"""The table of evaluators, and their use on a node."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from moonpoly.compiler.frontend.model.standard import STANDARD_DOMAINS
from moonpoly.compiler.frontend.node.values import Value

if TYPE_CHECKING:
    from moonpoly.compiler.frontend.graph.context import Context

# An evaluator returns the result's elements, or a value for each result; None where it can't.
Evaluated: TypeAlias = "np.ndarray | Value | Sequence[Value] | None"
Evaluator: TypeAlias = "Callable[[Context], Evaluated]"

_EVALUATORS: dict[str, Evaluator] = {}
# Above this many elements a tensor is no shape: it is computed at run time.
_MAX_ELEMENTS = 4096


def evaluates(*op_types: str) -> Callable[[Evaluator], Evaluator]:
    """Register the decorated function as the evaluator of operators of the standard domain.

    It gets the node's context. An array that it returns has the first operand's element type.
    """

    def register(evaluator: Evaluator) -> Evaluator:
        for op_type in op_types:
            assert op_type not in _EVALUATORS, f"{op_type} has two evaluators"
            _EVALUATORS[op_type] = evaluator
        return evaluator

    return register


def evaluate_node(ctx: Context) -> list[Value] | None:
    """Return the results of a node that are known in symbols, or None where they are not."""
    evaluator = _EVALUATORS.get(ctx.op) if ctx.domain in STANDARD_DOMAINS else None
    result = None if evaluator is None else evaluator(ctx)
    if result is None:
        return None
    if isinstance(result, np.ndarray):
        result = Value.of_elements(result, ctx.dtype(0))
    return [result] if isinstance(result, Value) else list(result)


def elements_of(ctx: Context, index: int) -> np.ndarray | None:
    """Return the elements of an operand if they are known and few, else None."""
    value = ctx.values[index] if index < len(ctx.values) else None
    if value is None:
        return None
    known = value.array if value.elements is None else value.elements
    if known is None or known.size > _MAX_ELEMENTS:
        return None
    return value.known_elements()


def known_operands(ctx: Context) -> list[np.ndarray] | None:
    """Return the elements of every operand, or None if one is left out, or not known."""
    operands = [elements_of(ctx, index) for index in range(len(ctx.values))]
    known = [operand for operand in operands if operand is not None]
    return known if len(known) == len(operands) else None
