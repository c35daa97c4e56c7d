"""What passes that rewrite Relax functions share."""

from __future__ import annotations

from collections.abc import Callable

import tvm
from tvm import relax
from tvm.relax.expr_functor import PyExprMutator

from moonpoly.compiler.passes.labels import node_labels
from moonpoly.compiler.sites import SiteTable


def rewrite_functions(
    mod: tvm.IRModule,
    rewriter: PyExprMutator,
    prepare: Callable[[relax.Function], object] = lambda func: None,
) -> tvm.IRModule:
    """Return ``mod`` with every Relax function as ``rewriter``, made for ``mod``, returns it.

    ``prepare`` is called with each function before it is visited.
    """
    for gvar, func in mod.functions_items():
        if isinstance(func, relax.Function):
            prepare(func)
            rewriter.builder_.update_func(gvar, rewriter.visit_expr(func))
    return rewriter.builder_.get()


class NodeRewriter(PyExprMutator):
    """A mutator that knows the ONNX node of the binding it is at.

    A base class: TVM's decorator goes on the class that inherits from it.
    """

    def __init__(self, mod: tvm.IRModule, table: SiteTable) -> None:
        super().__init__(mod)
        self.table = table
        self.node = ""
        self._labels: dict[relax.Var, str] = {}

    def find_labels(self, func: relax.Function) -> None:
        """Get ready for the nodes of ``func``."""
        self._labels = node_labels(func)

    def visit_var_binding_(self, binding: relax.VarBinding) -> None:
        """Visit a binding as the part of its node."""
        self.node = self._labels.get(binding.var, binding.var.name)
        super().visit_var_binding_(binding)
