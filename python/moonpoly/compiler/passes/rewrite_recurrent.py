"""Give the products in RNN, GRU and LSTM their call sites, and their constant weights a layout.

Requires: constants folded; the importer's calls of ``moonpoly.op.rnn``, ``gru`` and ``lstm`` with 0
for each site. Ensures: every such call names a registered site for each product with its state.
Functional: returns a new module.

The products of the inputs are ``relax.matmul``, which RewriteMatmul takes. These here are repeated
in each step inside the operator, on the same micro-kernels.
"""

from __future__ import annotations

import numpy as np
import tvm
from tvm import relax
from tvm.relax.expr_functor import mutator

from moonpoly.compiler.passes.dims import shape_of
from moonpoly.compiler.passes.fold_constant import constant_array
from moonpoly.compiler.passes.pack_weight import is_narrow, pack_weight
from moonpoly.compiler.passes.rewriting import NodeRewriter, rewrite_functions
from moonpoly.compiler.sites import SiteTable

_CALL_DPS_PACKED = tvm.ir.Op.get("relax.call_dps_packed")
# Operator → (position of the site, position of the weights) of each product.
_PRODUCTS = {
    "moonpoly.op.lstm": ((0, 2),),
    "moonpoly.op.gru": ((0, 2), (9, 10)),
    "moonpoly.op.rnn": ((0, 2),),
}


@tvm.transform.module_pass(opt_level=0, name="RewriteRecurrent")
class RewriteRecurrent:
    """Module pass: see the module's description."""

    def __init__(self, table: SiteTable) -> None:
        self.table = table

    def transform_module(self, mod: tvm.IRModule, _ctx: tvm.transform.PassContext) -> tvm.IRModule:
        """Rewrite in every Relax function."""
        rewriter = _Rewriter(mod, self.table)
        return rewrite_functions(mod, rewriter, prepare=rewriter.find_labels)


@mutator
class _Rewriter(NodeRewriter):
    def visit_call_(self, op: tvm.ir.Call) -> relax.Expr:
        call = self.visit_expr_post_order(op)
        if not isinstance(call, tvm.ir.Call) or call.op != _CALL_DPS_PACKED:
            return call
        products = _PRODUCTS.get(str(call.args[0].global_symbol))
        if products is None:
            return call
        args = list(call.args[1].fields)
        for site, weight in products:
            if isinstance(args[weight].ty, relax.TensorType):
                args[site], args[weight] = self._product(args[weight])
        return relax.call_dps_packed(call.args[0], args, out_ty=list(call.ty.fields))

    def _product(self, weight: relax.Expr) -> tuple[relax.Expr, relax.Expr]:
        """Register a product with weights (directions, n, k); return its site and the operand."""
        shape = shape_of(weight)
        assert shape is not None, "the importer knows the shape of the weights"
        value = constant_array(weight)
        if value is None or is_narrow(int(shape[1]), self.table.lanes):
            site = self.table.add("matmul", self.node, trans_a=False, b="transposed", n=None)
            return relax.prim_value(site.id), weight
        packed = pack_weight(np.swapaxes(value, -1, -2), self.table.lanes)
        site = self.table.add("matmul", self.node, trans_a=False, b="packed", n=int(shape[1]))
        return relax.prim_value(site.id), relax.const(packed, "float32")
