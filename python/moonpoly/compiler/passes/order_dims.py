"""Let no binding use a dimension before the one that defines it.

A dimension that is read from data is defined by a ``match_cast``. Fusion sorts bindings by the
variables that they use, and doesn't know that a dimension is one of them.
"""

from __future__ import annotations

from collections.abc import Iterable

import tvm
from tvm import relax
from tvm.relax.analysis import tir_vars_in_type


@tvm.transform.module_pass(opt_level=0, name="OrderDims")
class OrderDims:
    """Move bindings down to where every dimension that they use is defined.

    Functional; keeps the order of all others, and the blocks.
    """

    def transform_module(
        self, mod: tvm.IRModule, _context: tvm.transform.PassContext
    ) -> tvm.IRModule:
        """Apply the pass."""
        for var, func in list(mod.functions_items()):
            if isinstance(func, relax.Function) and isinstance(func.body, relax.SeqExpr):
                ordered = _order(func)
                if ordered is not None:
                    mod.update_func(var, ordered)
        return mod


def _order(func: relax.Function) -> relax.Function | None:
    """Return ``func`` in order, or None if it is."""
    unknown = _defined_inside(func)
    if not unknown:
        return None
    blocks, changed = [], False
    for block in func.body.blocks:
        bindings = _sorted(block.bindings, unknown)
        if all(a.same_as(b) for a, b in zip(bindings, block.bindings, strict=True)):
            blocks.append(block)
            continue
        changed = True
        kind = type(block)
        blocks.append(kind(bindings))
    if not changed:
        return None
    body = relax.SeqExpr(blocks, func.body.body)
    return relax.Function(func.params, body, func.ret_ty, func.is_pure, func.attrs)


def _defined_inside(func: relax.Function) -> set[tvm.tirx.Var]:
    """Return the dimensions that casts define, less those of the parameters."""
    found: set[tvm.tirx.Var] = set()
    for block in func.body.blocks:
        for binding in block.bindings:
            if isinstance(binding, relax.MatchCast):
                found.update(tir_vars_in_type(binding.ty))
    for param in func.params:
        found.difference_update(tir_vars_in_type(param.ty))
    return found


def _sorted(bindings: Iterable[relax.Binding], unknown: set[tvm.tirx.Var]) -> list[relax.Binding]:
    """Return the bindings in order; takes the dimensions that they define out of ``unknown``."""
    done: list[relax.Binding] = []
    waiting: list[relax.Binding] = []
    late: set[relax.Var] = set()
    for binding in bindings:
        waiting.append(binding)
        late.add(binding.var)
        progress = True
        while progress:
            progress = False
            for candidate in list(waiting):
                if _uses(candidate, unknown, late - {candidate.var}):
                    continue
                waiting.remove(candidate)
                late.discard(candidate.var)
                done.append(candidate)
                if isinstance(candidate, relax.MatchCast):
                    unknown.difference_update(tir_vars_in_type(candidate.ty))
                progress = True
    # What still waits has no order that helps: it is left to who reports undefined dimensions.
    return done + waiting


def _uses(binding: relax.Binding, unknown: set[tvm.tirx.Var], late: set[relax.Var]) -> bool:
    """Return whether a binding uses a dimension or a variable that isn't defined yet."""
    used = False

    def visit(expr: tvm.ir.Expr) -> None:
        nonlocal used
        if isinstance(expr, relax.Var):
            used = used or expr in late
        elif isinstance(expr, relax.ShapeExpr):
            used = used or any(v in unknown for v in tir_vars_in_type(expr.ty))
        elif tvm.ir.is_prim_expr(expr):
            used = used or any(v in unknown for v in tvm.tirx.analysis.undefined_vars(expr))
        elif isinstance(expr, tvm.ir.Call):
            for ty in expr.ty_args:
                used = used or any(v in unknown for v in tir_vars_in_type(ty))

    relax.analysis.post_order_visit(binding.value, visit)
    return used
