"""Subgraphs as functions of their own, which the operators that hold them call at run time.

A function sees the values of the graphs around it through parameters: those that it uses follow its
own inputs, and the symbolic dimensions that no parameter defines come last, as a shape. Constants
and what is known in symbols need no parameter.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import tvm
from tvm import relax

from moonpoly.compiler.frontend.dimensions.equalities import Broadcasts
from moonpoly.compiler.frontend.node.values import Value


class Frame:
    """What belongs to one function under construction, and what it takes from outside.

    Parameters
    ----------
    base
        How many graphs lie outside the function.
    broadcasts
        The dimensions that were found by broadcasting within.
    """

    def __init__(self, base: int, broadcasts: Broadcasts) -> None:
        self.base = base
        self.broadcasts = broadcasts
        # Elements that were laid down in memory, and tensors whose elements were read.
        self.laid_down: dict[Value, relax.Expr] = {}
        self.read: dict[Value, np.ndarray] = {}
        self.captured: dict[Value, relax.Var] = {}
        # Symbolic dimensions that are defined within; nothing outside may name them.
        self.dims: set[tvm.tirx.Var] = set()
        self._seen_within: dict[Value, Value] = {}

    def capture(self, value: Value) -> Value:
        """Return a value of the outside as the function sees it."""
        if value.is_lost or value.array is not None:
            return value
        if value not in self._seen_within:
            if value.elements is not None:
                # A value of its own: outside it may lie in memory already.
                within = Value(elements=value.elements, dtype=value.dtype)
            elif isinstance(value.expr, tvm.ir.GenericConst):
                within = value
            else:
                assert value.expr is not None
                param = relax.Var(f"captured_{len(self.captured)}", value.expr.ty)
                self.captured[value] = param
                within = Value(expr=param, item=value.item)
            self._seen_within[value] = within
        return self._seen_within[value]

    def is_visible(self, dim: Any) -> bool:
        """Return whether a dimension can be named outside."""
        if isinstance(dim, int) or dim is None:
            return dim is not None
        return not any(var in self.dims for var in tvm.tirx.analysis.undefined_vars(dim))


@dataclass
class Body:
    """An imported subgraph before it becomes a function.

    Parameters
    ----------
    params
        Variables for the subgraph's inputs.
    block
        Its bindings.
    result
        The variable of the tuple of its results.
    results
        The results, one by one.
    frame
        What it takes from outside.
    """

    params: list[relax.Var]
    block: relax.BindingBlock
    result: relax.Var
    results: list[Value]
    frame: Frame

    def function(self, captured: Sequence[Value], dims: Sequence[tvm.tirx.Var]) -> relax.Function:
        """Make a function of the subgraph's inputs, ``captured`` values and ``dims``."""
        params = list(self.params)
        for value in captured:
            assert value.expr is not None
            unused = relax.Var("unused", value.expr.ty)
            params.append(self.frame.captured.get(value, unused))
        if dims:
            params.append(relax.Var("dims", relax.ShapeType(list(dims))))
        body = relax.SeqExpr([self.block], self.result)
        returned = relax.TupleType([_erased(field) for field in self.result.ty.fields])
        return relax.Function(params, body, returned, is_pure=True)


@dataclass
class Callees:
    """Functions that are called with the same captured values.

    Parameters
    ----------
    functions
        Names in the module, in the order of the bodies.
    arguments
        What every call passes last.
    """

    functions: list[tvm.ir.GlobalVar]
    arguments: list[relax.Expr]


def add_functions(
    bb: relax.BlockBuilder,
    bodies: Sequence[Body],
    captured: Sequence[Value],
    tensors: Sequence[relax.Expr],
    label: str,
) -> Callees:
    """Add bodies to the module as functions that take the same arguments after their own.

    Parameters
    ----------
    captured, tensors
        The outside values that the bodies use, and these as tensors.
    label
        The node's name, from which those of the functions are made.
    """
    dims: dict[tvm.tirx.Var, None] = {}
    for body in bodies:
        free = relax.analysis.free_symbolic_vars(body.function(captured, []))
        dims.update(dict.fromkeys(free))
    ordered = sorted(dims, key=lambda dim: str(dim.name))
    functions = []
    for body in bodies:
        function = body.function(captured, ordered)
        gvar = bb.add_func(function, re.sub(r"\W", "_", label))
        # Public, for passes drop parameters of private functions that have no use for them.
        bb.update_func(gvar, function.with_attr("global_symbol", gvar.name_hint))
        functions.append(gvar)
    shape = [relax.ShapeExpr(ordered)] if ordered else []
    return Callees(functions, [*tensors, *shape])


def captured_values(bodies: Sequence[Body]) -> list[Value]:
    """Return the outside values that any of the bodies uses."""
    return list(dict.fromkeys(value for body in bodies for value in body.frame.captured))


def renew_variables(mod: tvm.IRModule) -> tvm.IRModule:
    """Give every function but ``main`` symbolic dimensions of its own; drop those never called.

    While a graph is imported, a function names the dimensions around it by their own variables,
    and a subgraph may be imported more than once before what is known of its inputs holds.
    """
    called = _called_from(mod, mod.get_global_var("main"))
    kept = tvm.IRModule(attrs=mod.attrs)
    for gvar, function in mod.functions_items():
        if gvar not in called:
            continue
        if isinstance(function, relax.Function) and gvar.name_hint != "main":
            function = relax.utils.copy_with_new_vars(function)
        kept[gvar] = function
    return kept


def _called_from(mod: tvm.IRModule, start: tvm.ir.GlobalVar) -> set[tvm.ir.GlobalVar]:
    """Return the functions that may run when ``start`` does."""
    called = {start}
    pending = [start]

    def visit(expr: relax.Expr) -> None:
        if isinstance(expr, tvm.ir.GlobalVar) and expr not in called:
            called.add(expr)
            pending.append(expr)

    while pending:
        function = mod[pending.pop()]
        if isinstance(function, relax.Function):
            relax.analysis.post_order_visit(function, visit)
    return called


def _erased(ty: relax.Type) -> relax.Type:
    """Return a type without sizes, which may have names that mean nothing to a caller."""
    if isinstance(ty, relax.TensorType):
        return relax.TensorType(dtype=ty.dtype, ndim=ty.ndim)
    return ty
