"""The table of own converters, by domain and operator."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, TypeAlias

from tvm import relax

from moonpoly.compiler.frontend.model.standard import plain_domain

if TYPE_CHECKING:
    from moonpoly.compiler.frontend.graph.context import Context
    from moonpoly.compiler.frontend.node.values import Value

# None leaves the node to TVM's converter of that operator.
Converted: TypeAlias = "relax.Expr | Value | Sequence[relax.Expr | Value | None] | None"
Converter: TypeAlias = "Callable[[Context], Converted]"

_CONVERTERS: dict[tuple[str, str], Converter] = {}


def converts(*op_types: str, domain: str = "") -> Callable[[Converter], Converter]:
    """Register the decorated function as the converter of ``op_types``, at all opsets.

    It gets the node's :class:`Context` and returns the node's result, or its results, of which
    those that the node doesn't name may be None. It may return None to leave the node to TVM's
    converter, with the operands as ``Context.inputs`` holds them then.
    """

    def register(converter: Converter) -> Converter:
        for op_type in op_types:
            assert (domain, op_type) not in _CONVERTERS, f"{op_type} has two converters"
            _CONVERTERS[domain, op_type] = converter
        return converter

    return register


def find_converter(domain: str, op_type: str) -> Converter | None:
    """Return the own converter of an operator, or None."""
    return _CONVERTERS.get((plain_domain(domain), op_type))
