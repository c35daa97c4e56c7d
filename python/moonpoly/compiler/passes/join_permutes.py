"""Join transpositions that follow one another, and drop those that move nothing.

Requires: A-normal form. Ensures: no ``relax.permute_dims`` reads another's result. Functional:
returns a new module.
"""

from __future__ import annotations

import tvm
from tvm import relax
from tvm.relax.expr_functor import PyExprMutator, mutator

from moonpoly.compiler.passes.dims import shape_of
from moonpoly.compiler.passes.rewriting import rewrite_functions

_PERMUTE = tvm.ir.Op.get("relax.permute_dims")


@tvm.transform.module_pass(opt_level=0, name="JoinPermutes")
class JoinPermutes:
    """Module pass: see the module's description."""

    def transform_module(self, mod: tvm.IRModule, _ctx: tvm.transform.PassContext) -> tvm.IRModule:
        """Join in every Relax function."""
        rewriter = _Rewriter(mod)
        return relax.transform.DeadCodeElimination()(rewrite_functions(mod, rewriter))


def permutation(call: tvm.ir.Call) -> list[int] | None:
    """Return the axes of a ``relax.permute_dims`` of known rank, all non-negative; else None."""
    if not isinstance(call, tvm.ir.Call) or call.op != _PERMUTE:
        return None
    shape = shape_of(call.args[0])
    if shape is None:
        return None
    rank, axes = len(shape), call.attrs.axes
    return list(reversed(range(rank))) if axes is None else [int(axis) % rank for axis in axes]


@mutator
class _Rewriter(PyExprMutator):
    def visit_call_(self, op: tvm.ir.Call) -> relax.Expr:
        call = self.visit_expr_post_order(op)
        outer = permutation(call)
        if outer is None:
            return call
        source = call.args[0]
        value = self.lookup_binding(source) if isinstance(source, relax.Var) else None
        inner = permutation(value) if value is not None else None
        if value is not None and inner is not None:
            source, outer = value.args[0], [inner[axis] for axis in outer]
        if outer == sorted(outer):
            return source
        return relax.op.permute_dims(source, outer) if inner is not None else call
