"""Let a matmul write its result where a transposition that follows would move it.

Requires: matmul rewritten and epilogues fused. Ensures: no transposition is the only user of an
intrinsic matmul's result, unless it moves the innermost dimension. Functional: returns a new
module.

The call's output becomes the transposed tensor; ``c_axes[i]`` of the site is its dimension that
is dimension i of the product.
"""

from __future__ import annotations

import tvm
from tvm import relax
from tvm.relax.expr_functor import PyExprMutator, mutator

from moonpoly.compiler.passes import rewrite_matmul
from moonpoly.compiler.passes.fuse_epilogue import intrinsic_name, site_of
from moonpoly.compiler.passes.join_permutes import permutation
from moonpoly.compiler.passes.rewriting import rewrite_functions
from moonpoly.compiler.sites import SiteTable


@tvm.transform.module_pass(opt_level=0, name="AbsorbTransposition")
class AbsorbTransposition:
    """Module pass: see the module's description."""

    def __init__(self, table: SiteTable) -> None:
        self.table = table

    def transform_module(self, mod: tvm.IRModule, _ctx: tvm.transform.PassContext) -> tvm.IRModule:
        """Rewrite every Relax function."""
        rewriter = _Rewriter(mod)
        return rewrite_functions(
            mod, rewriter, prepare=lambda func: rewriter.plan(func, self.table)
        )


@mutator
class _Rewriter(PyExprMutator):
    def __init__(self, mod: tvm.IRModule) -> None:
        super().__init__(mod)
        self._absorbed: set[relax.Var] = set()
        self._calls: dict[relax.Var, relax.Expr] = {}

    def plan(self, func: relax.Function, table: SiteTable) -> None:
        for block in func.body.blocks:
            if not isinstance(block, relax.DataflowBlock):
                continue
            users = relax.analysis.udchain(block)
            by_var = {b.var: b.value for b in block.bindings if isinstance(b, relax.VarBinding)}
            for var, value in by_var.items():
                axes = permutation(value)
                source = value.args[0] if axes is not None else None
                product = by_var.get(source) if isinstance(source, relax.DataflowVar) else None
                if axes is None or product is None:
                    continue
                if intrinsic_name(product) != rewrite_matmul.INTRINSIC:
                    continue
                if len(users[source]) != 1 or axes[-1] != len(axes) - 1:
                    continue
                site_of(product, table).attributes["c_axes"] = [
                    axes.index(dim) for dim in range(len(axes))
                ]
                callee, arguments = product.args
                self._absorbed.add(source)
                self._calls[var] = relax.call_dps_packed(
                    callee, list(arguments.fields), out_ty=value.ty
                )

    def visit_var_binding_(self, binding: relax.VarBinding) -> None:
        if binding.var in self._absorbed:
            return
        if binding.var in self._calls:
            binding = relax.VarBinding(binding.var, self._calls[binding.var])
        super().visit_var_binding_(binding)
