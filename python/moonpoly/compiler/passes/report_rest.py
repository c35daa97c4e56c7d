"""Record what generated code will compute, operator by operator.

Requires: matmul, conv2d and their epilogues rewritten, operators not yet legalised. Changes
nothing.
"""

from __future__ import annotations

import tvm
from tvm import relax

from moonpoly.compiler.passes.labels import node_labels
from moonpoly.compiler.sites import SiteTable

# Operators that move no data or only compute shapes.
_FREE = frozenset(
    {
        "relax.call_dps_packed",
        "relax.call_tir",
        "relax.expand_dims",
        "relax.flatten",
        "relax.reshape",
        "relax.shape_of",
        "relax.squeeze",
    }
)
_REASON = "not a matrix product"


@tvm.transform.module_pass(opt_level=0, name="ReportRest")
class ReportRest:
    """Module pass: see the module's description."""

    def __init__(self, table: SiteTable) -> None:
        self.table = table

    def transform_module(self, mod: tvm.IRModule, _ctx: tvm.transform.PassContext) -> tvm.IRModule:
        """Add an entry for each operator that no earlier pass has reported."""
        reported = {(entry.op, entry.node) for entry in self.table.report}
        for _, func in mod.functions_items():
            if not isinstance(func, relax.Function):
                continue
            labels = node_labels(func)
            for block in func.body.blocks:
                for binding in block.bindings:
                    name = _operator(binding.value)
                    node = labels.get(binding.var, binding.var.name)
                    if name and (name, node) not in reported:
                        self.table.leave(name, node, _REASON)
        return mod


def _operator(value: relax.Expr) -> str:
    """Return the short name of an operator that computes something, else an empty string."""
    if not isinstance(value, tvm.ir.Call) or not isinstance(value.op, tvm.ir.Op):
        return ""
    if value.op.name in _FREE:
        return ""
    return value.op.name.removeprefix("relax.").removeprefix("nn.")
