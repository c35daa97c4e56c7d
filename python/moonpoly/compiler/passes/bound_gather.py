"""Keep every gather inside its tensor, whatever the indices hold.

Requires: nothing. Ensures: no ``relax.take`` is left in mode ``"fast"``, in which an index out of
range reads foreign memory. Functional: returns a new module.
"""

from __future__ import annotations

import tvm
from tvm import relax
from tvm.relax.expr_functor import PyExprMutator, mutator

from moonpoly.compiler.passes.rewriting import rewrite_functions

_TAKE = tvm.ir.Op.get("relax.take")


@tvm.transform.module_pass(opt_level=0, name="BoundGather")
class BoundGather:
    """Module pass: see the module's description."""

    def transform_module(self, mod: tvm.IRModule, _ctx: tvm.transform.PassContext) -> tvm.IRModule:
        """Rewrite in every Relax function."""
        rewriter = _Rewriter(mod)
        return rewrite_functions(mod, rewriter)


@mutator
class _Rewriter(PyExprMutator):
    def visit_call_(self, op: tvm.ir.Call) -> relax.Expr:
        call = self.visit_expr_post_order(op)
        if isinstance(call, tvm.ir.Call) and call.op == _TAKE and call.attrs.mode == "fast":
            return relax.op.take(call.args[0], call.args[1], call.attrs.axis, mode="clip")
        return call
