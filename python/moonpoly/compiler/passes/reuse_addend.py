"""Let a convolution write its result over its addend.

Requires: calls pass their destination, buffers are allocated one for each value
(``CallTIRRewrite``), nothing is planned yet. Ensures: where an addend's buffer is not read after
the convolution that adds to it, and by that as the addend only, it is the destination as well, and
the destination's own buffer is gone. Functional: returns a new module.

A buffer that is seen under another shape, put in a tuple or returned is left alone.
"""

from __future__ import annotations

from collections.abc import Sequence, Set

import tvm
from tvm import relax
from tvm.relax.expr_functor import PyExprMutator, mutator

from moonpoly.compiler.passes import rewrite_conv2d
from moonpoly.compiler.passes.dims import dtype_of, same_shape, shape_of
from moonpoly.compiler.passes.fuse_epilogue import INTRINSICS
from moonpoly.compiler.passes.rewriting import rewrite_functions
from moonpoly.compiler.sites import SiteTable

_ALLOC = tvm.ir.Op.get("relax.builtin.alloc_tensor")


@tvm.transform.module_pass(opt_level=0, name="ReuseAddend")
class ReuseAddend:
    """Module pass: see the module's description."""

    def __init__(self, table: SiteTable) -> None:
        self.table = table

    def transform_module(self, mod: tvm.IRModule, _ctx: tvm.transform.PassContext) -> tvm.IRModule:
        """Rewrite in every Relax function."""
        rewriter = _Rewriter(mod)
        kernels = {
            gvar for gvar, func in mod.functions_items() if isinstance(func, tvm.tirx.PrimFunc)
        }
        return rewrite_functions(
            mod,
            rewriter,
            prepare=lambda func: rewriter.plan(_find_reuses(func, self.table, kernels)),
        )


@mutator
class _Rewriter(PyExprMutator):
    def __init__(self, mod: tvm.IRModule) -> None:
        super().__init__(mod)
        # Destination that isn't needed → the buffer used instead.
        self._replaced: dict[relax.Var, relax.Var] = {}

    def plan(self, replaced: dict[relax.Var, relax.Var]) -> None:
        self._replaced = replaced

    def visit_var_binding_(self, binding: relax.VarBinding) -> None:
        if binding.var not in self._replaced:
            super().visit_var_binding_(binding)

    def visit_var_(self, op: relax.Var) -> relax.Expr:
        return super().visit_var_(self._replaced.get(op, op))


class _Buffers:
    """The buffers of a function: which variables name them, and where they are used last."""

    def __init__(self, func: relax.Function, kernels: Set[tvm.ir.GlobalVar]) -> None:
        self._kernels = kernels
        self.bindings = [binding for block in func.body.blocks for binding in block.bindings]
        self._root: dict[relax.Var, relax.Var] = {}
        self._last_use: dict[relax.Var, int] = {}
        self._fixed: set[relax.Var] = set()
        for position, binding in enumerate(self.bindings):
            self._add(position, binding)
        self._fix(func.body.body)

    def root(self, expr: relax.Expr) -> relax.Var | None:
        """Return the variable of the allocation that ``expr`` names, or None if it is another's."""
        return self._root.get(expr) if isinstance(expr, relax.Var) else None

    def is_free_after(self, root: relax.Var, position: int) -> bool:
        return root not in self._fixed and self._last_use[root] <= position

    def join(self, root: relax.Var, gone: relax.Var) -> None:
        """Let ``root`` stand for all that ``gone`` stood for."""
        for var, other in self._root.items():
            if other.same_as(gone):
                self._root[var] = root
        self._last_use[root] = max(self._last_use[root], self._last_use[gone])
        if gone in self._fixed:
            self._fixed.add(root)

    def _add(self, position: int, binding: relax.Binding) -> None:
        value = binding.value
        if isinstance(value, relax.Var):
            root = self.root(value)
            if root is not None:
                self._root[binding.var] = root
            return
        if isinstance(value, tvm.ir.Call) and value.op == _ALLOC:
            self._root[binding.var] = binding.var
            self._last_use[binding.var] = position
            return
        for var in relax.analysis.free_vars(value):
            root = self.root(var)
            if root is not None:
                self._last_use[root] = position
        if not self._only_touches(value):
            self._fix(value)

    def _only_touches(self, value: relax.Expr) -> bool:
        """Whether ``value`` is a call that keeps no argument under another name."""
        if not isinstance(value, tvm.ir.Call):
            return False
        if isinstance(value.op, relax.ExternFunc):
            return value.op.global_symbol in INTRINSICS
        return isinstance(value.op, tvm.ir.GlobalVar) and value.op in self._kernels

    def _fix(self, expr: relax.Expr) -> None:
        for var in relax.analysis.free_vars(expr):
            root = self.root(var)
            if root is not None:
                self._fixed.add(root)


def _find_reuses(
    func: relax.Function, table: SiteTable, kernels: Set[tvm.ir.GlobalVar]
) -> dict[relax.Var, relax.Var]:
    """Return destination → addend for the buffers of all convolutions that can reuse one."""
    if not isinstance(func.body, relax.SeqExpr):
        return {}
    buffers = _Buffers(func, kernels)
    replaced: dict[relax.Var, relax.Var] = {}
    for position, binding in enumerate(buffers.bindings):
        arguments = _arguments(binding.value)
        if not arguments or not table.find(int(arguments[0].value)).attributes.get("addend"):
            continue
        addend, out = buffers.root(arguments[-2]), buffers.root(arguments[-1])
        if addend is None or out is None or not buffers.is_free_after(addend, position):
            continue
        others = [buffers.root(argument) for argument in arguments[:-2]]
        if any(other is not None and other.same_as(addend) for other in others):
            continue
        shapes = shape_of(addend), shape_of(out)
        if dtype_of(addend) == dtype_of(out) and same_shape(shapes[0] or [], shapes[1] or []):
            buffers.join(addend, out)
            replaced[out] = addend
    return {out: _end(replaced, out) for out in replaced}


def _end(replaced: dict[relax.Var, relax.Var], var: relax.Var) -> relax.Var:
    while var in replaced:
        var = replaced[var]
    return var


def _arguments(value: relax.Expr) -> Sequence[relax.Expr]:
    """Return the arguments of a call of the intrinsic; empty if ``value`` is none."""
    if not isinstance(value, tvm.ir.Call) or not isinstance(value.op, relax.ExternFunc):
        return ()
    return list(value.args) if value.op.global_symbol == rewrite_conv2d.INTRINSIC else ()
