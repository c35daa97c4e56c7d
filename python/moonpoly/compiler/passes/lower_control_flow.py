"""Pass the virtual machine's context to the operators that call functions of the model.

Requires: lowered for the virtual machine, every function with its global symbol. Ensures: a call of
``moonpoly.op.if``, ``loop`` or ``scan`` gets the context first, and names functions by the
module's own variables. Functional: returns a new module.

Up to here such a call is like that of any other external function: pure, so that a model with
branches is one dataflow block, and known to keep none of its arguments.
"""

from __future__ import annotations

import tvm
from tvm import relax
from tvm.relax.expr_functor import PyExprMutator, mutator

from moonpoly.compiler.passes.rewriting import rewrite_functions

_NEED_CONTEXT = frozenset({"moonpoly.op.if", "moonpoly.op.loop", "moonpoly.op.scan"})


@tvm.transform.module_pass(opt_level=0, name="LowerControlFlow")
class LowerControlFlow:
    """Module pass: see the module's description."""

    def transform_module(self, mod: tvm.IRModule, _ctx: tvm.transform.PassContext) -> tvm.IRModule:
        """Rewrite in every Relax function."""
        rewriter = _Rewriter(mod)
        return rewrite_functions(mod, rewriter)


@mutator
class _Rewriter(PyExprMutator):
    def __init__(self, mod: tvm.IRModule) -> None:
        super().__init__(mod)
        self._functions = {gvar.name_hint: gvar for gvar in mod.get_global_vars()}

    def visit_call_(self, op: tvm.ir.Call) -> relax.Expr:
        if not isinstance(op.op, relax.ExternFunc):
            return op
        if str(op.op.global_symbol) not in _NEED_CONTEXT:
            return op
        args = [
            self._functions[arg.name_hint] if isinstance(arg, tvm.ir.GlobalVar) else arg
            for arg in op.args
        ]
        return relax.op.call_builtin_with_ctx(op.op, relax.Tuple(args), ty_args=list(op.ty_args))
