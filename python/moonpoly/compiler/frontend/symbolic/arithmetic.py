"""Evaluators of operators that work element by element, and of reductions."""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from moonpoly.compiler.frontend.node.values import Value
from moonpoly.compiler.frontend.symbolic.registry import elements_of, evaluates, known_operands
from moonpoly.compiler.frontend.symbolic.scalar import Symbols

if TYPE_CHECKING:
    from moonpoly.compiler.frontend.graph.context import Context

_BINARY: dict[str, Callable[[Symbols, Any, Any], Any]] = {
    "Add": Symbols.add,
    "Sub": Symbols.subtract,
    "Mul": Symbols.multiply,
    "Div": Symbols.divide,
    "And": Symbols.both,
    "Or": Symbols.either,
    "Max": Symbols.maximum,
    "Min": Symbols.minimum,
    "Sum": Symbols.add,
}
_RELATIONS: dict[str, Callable[[Any, Any], Any]] = {
    "Equal": operator.eq,
    "Greater": operator.gt,
    "GreaterOrEqual": operator.ge,
    "Less": operator.lt,
    "LessOrEqual": operator.le,
}
_UNARY: dict[str, Callable[[Symbols, Any], Any]] = {
    "Neg": lambda symbols, item: symbols.multiply(item, -1),
    "Abs": lambda symbols, item: symbols.maximum(item, symbols.multiply(item, -1)),
    "Floor": Symbols.floor,
    "Ceil": Symbols.ceil,
    "Not": Symbols.negate,
    "Identity": lambda symbols, item: item,
}
_REDUCTIONS: dict[str, Callable[[Symbols, Any, Any], Any]] = {
    "ReduceProd": Symbols.multiply,
    "ReduceSum": Symbols.add,
    "ReduceMax": Symbols.maximum,
    "ReduceMin": Symbols.minimum,
}
_EMPTY: dict[str, int] = {"ReduceProd": 1, "ReduceSum": 0}


def elementwise(function: Callable[..., Any], *operands: np.ndarray) -> np.ndarray:
    """Apply ``function`` element by element, with NumPy's broadcasting, to object arrays."""
    result = np.frompyfunc(function, len(operands), 1)(*operands)
    return _boxed(result)


def _boxed(result: Any) -> np.ndarray:
    if isinstance(result, np.ndarray):
        return result
    # NumPy takes a single element out of its array.
    array = np.empty((), dtype=object)
    array[()] = result
    return array


@evaluates(*_BINARY)
def _binary(ctx: Context) -> np.ndarray | None:
    operands = known_operands(ctx)
    if not operands:
        return None
    combine = functools.partial(_BINARY[ctx.op], ctx.symbols)
    return functools.reduce(lambda a, b: elementwise(combine, a, b), operands)


@evaluates("Mod")
def _modulo(ctx: Context) -> np.ndarray | None:
    operands = known_operands(ctx)
    if operands is None or ctx.attrs.get("fmod", 0) or "float" in ctx.dtype(0):
        return None
    return elementwise(ctx.symbols.modulo, *operands)


@evaluates(*_RELATIONS)
def _compare(ctx: Context) -> Value | None:
    operands = known_operands(ctx)
    if operands is None:
        return None
    compare = functools.partial(ctx.symbols.compare, _RELATIONS[ctx.op])
    return Value.of_elements(elementwise(compare, *operands), "bool")


@evaluates(*_UNARY)
def _unary(ctx: Context) -> np.ndarray | None:
    operands = known_operands(ctx)
    if operands is None:
        return None
    return elementwise(functools.partial(_UNARY[ctx.op], ctx.symbols), operands[0])


@evaluates("Where")
def _where(ctx: Context) -> Value | None:
    operands = known_operands(ctx)
    if operands is None:
        return None
    return Value.of_elements(elementwise(ctx.symbols.select, *operands), ctx.dtype(1))


@evaluates("Cast", "CastLike")
def _cast(ctx: Context) -> Value | None:
    elements = elements_of(ctx, 0)
    if elements is None:
        return None
    dtype = np.dtype(ctx.element_type("to") if ctx.op == "Cast" else ctx.dtype(1))
    symbols = ctx.symbols
    convert: Callable[[Any], Any]
    if dtype == np.bool_:
        convert = functools.partial(symbols.compare, operator.ne, 0)
    elif np.issubdtype(dtype, np.integer):
        convert = symbols.to_integer
    elif dtype in (np.dtype("float32"), np.dtype("float64")):
        convert = symbols.to_real
    else:
        return None
    return Value.of_elements(elementwise(convert, elements), dtype.name)


@evaluates(*_REDUCTIONS)
def _reduce(ctx: Context) -> np.ndarray | None:
    elements = elements_of(ctx, 0)
    axes = ctx.attrs.get("axes")
    if ctx.has_input(1):
        given = ctx.constant(1)
        if given is None:
            return None
        axes = given.tolist()
    if elements is None:
        return None
    if not axes:
        if ctx.attrs.get("noop_with_empty_axes", 0):
            return elements
        axes = range(elements.ndim)
    combine = functools.partial(_REDUCTIONS[ctx.op], ctx.symbols)
    keep = bool(ctx.attrs.get("keepdims", 1))
    for axis in sorted((axis % elements.ndim for axis in axes), reverse=True):
        elements = _reduce_axis(elements, axis, combine, _EMPTY.get(ctx.op), keep)
    return elements


def _reduce_axis(
    elements: np.ndarray, axis: int, combine: Callable[[Any, Any], Any], empty: Any, keep: bool
) -> np.ndarray:
    parts = [elements.take(i, axis=axis) for i in range(elements.shape[axis])]
    if not parts:
        parts = [np.full(np.delete(elements.shape, axis), empty, dtype=object)]
    total = functools.reduce(lambda a, b: elementwise(combine, a, b), map(_boxed, parts))
    return np.expand_dims(total, axis) if keep else total
