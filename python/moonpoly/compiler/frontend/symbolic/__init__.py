"""Evaluation of tensors that are computed from shapes, in symbols, while the graph is walked."""

from moonpoly.compiler.frontend.symbolic import arithmetic, indexing, layout
from moonpoly.compiler.frontend.symbolic.elements import Ratio
from moonpoly.compiler.frontend.symbolic.memory import lay_down, read_integers
from moonpoly.compiler.frontend.symbolic.registry import evaluate_node, evaluates
from moonpoly.compiler.frontend.symbolic.scalar import Symbols

__all__ = [
    "Ratio",
    "Symbols",
    "arithmetic",
    "evaluate_node",
    "evaluates",
    "indexing",
    "lay_down",
    "layout",
    "read_integers",
]
