"""Fuse the element-wise operators that follow an intrinsic into its epilogue.

Requires: matmul and conv2d rewritten, constants folded, everything in dataflow blocks. Ensures: an
intrinsic whose result is used by element-wise operators only computes them on each block of the
output while it is in cache. Functional: returns a new module with one PrimFunc
``moonpoly_epilogue_<k>`` for each distinct expression.

A group starts with the call and takes, in program order, operators of the epilogue table whose
result has the output's shape and whose other operands are constants or broadcast over a block as a
column vector, row vector, scalar or whole. Values may be used many times inside the group, only the
last one outside. The fused call stands in the last one's place, where all operands are available.

A residual of a convolution that nobody reads afterwards becomes its *addend*: the last argument,
from which the product starts instead of from zero, and whose memory the result may take.
"""

from __future__ import annotations

from collections.abc import Sequence

import tvm
import tvm_ffi
from tvm import relax
from tvm.relax.expr_functor import PyExprMutator, mutator

from moonpoly.compiler.passes import rewrite_conv2d, rewrite_matmul
from moonpoly.compiler.passes.broadcast import conv2d_operand, matmul_operand
from moonpoly.compiler.passes.dims import Dim, dtype_of, is_static, same_shape, shape_of
from moonpoly.compiler.passes.epilogue_function import Ref, Step, build_epilogue
from moonpoly.compiler.passes.epilogue_group import Group, take_addend, truncated
from moonpoly.compiler.passes.epilogue_ops import find_rule
from moonpoly.compiler.passes.fold_constant import constant_array
from moonpoly.compiler.passes.rewriting import rewrite_functions
from moonpoly.compiler.sites import CallSite, Epilogue, OperandKind, SiteTable

INTRINSICS = (rewrite_matmul.INTRINSIC, rewrite_conv2d.INTRINSIC)
# What the runtime passes on from its stack.
_MAX_OPERANDS = 8
_CALL_DPS = tvm.ir.Op.get("relax.call_dps_packed")


@tvm.transform.module_pass(opt_level=0, name="FuseEpilogue")
class FuseEpilogue:
    """Module pass: see the module's description."""

    def __init__(self, table: SiteTable) -> None:
        self.table = table

    def transform_module(self, mod: tvm.IRModule, _ctx: tvm.transform.PassContext) -> tvm.IRModule:
        """Fuse in every Relax function."""
        functions = _EpilogueFunctions(self.table.lanes)
        fuser = _Fuser(mod)
        mod = rewrite_functions(
            mod,
            fuser,
            prepare=lambda func: fuser.plan(_find_groups(func), self.table, functions),
        )
        for name, func in functions.by_name.items():
            mod[name] = func
        return mod


class _EpilogueFunctions:
    """The PrimFuncs of a model, one for each distinct expression."""

    def __init__(self, lanes: int) -> None:
        self.by_name: dict[str, tvm.tirx.PrimFunc] = {}
        self._lanes = lanes
        self._by_hash: dict[int, list[tuple[str, tvm.tirx.PrimFunc]]] = {}

    def name_of(self, group: Group) -> str:
        func = build_epilogue(group.steps, group.kinds, self._lanes)
        alike = self._by_hash.setdefault(tvm_ffi.structural_hash(func), [])
        for name, known in alike:
            if tvm_ffi.structural_equal(func, known):
                return name
        name = f"moonpoly_epilogue_{len(self.by_name)}"
        alike.append((name, func))
        self.by_name[name] = func.with_attr("global_symbol", name)
        return name


@mutator
class _Fuser(PyExprMutator):
    def __init__(self, mod: tvm.IRModule) -> None:
        super().__init__(mod)
        self._absorbed: set[relax.Var] = set()
        self._fused: dict[relax.Var, relax.Expr] = {}

    def plan(
        self, groups: Sequence[Group], table: SiteTable, functions: _EpilogueFunctions
    ) -> None:
        for group in groups:
            call = group.anchor.value
            site = site_of(call, table)
            if group.steps:
                site.epilogue = Epilogue(functions.name_of(group), tuple(group.kinds))
            arguments = [*call.args[1].fields, *group.operands]
            if group.addend is not None:
                site.attributes["addend"] = True
                arguments.append(group.addend)
            last = group.members[-1].var
            self._absorbed.update([group.anchor.var, *(b.var for b in group.members[:-1])])
            self._fused[last] = relax.call_dps_packed(
                call.args[0], arguments, out_ty=call.ty_args[0]
            )

    def visit_var_binding_(self, binding: relax.VarBinding) -> None:
        if binding.var in self._absorbed:
            return
        if binding.var in self._fused:
            binding = relax.VarBinding(binding.var, self._fused[binding.var])
        super().visit_var_binding_(binding)


def _find_groups(func: relax.Function) -> list[Group]:
    groups: list[Group] = []
    for block in func.body.blocks:
        if not isinstance(block, relax.DataflowBlock):
            continue
        users = relax.analysis.udchain(block)
        bindings = [b for b in block.bindings if isinstance(b, relax.VarBinding)]
        taken: set[relax.Var] = set()
        for position, binding in enumerate(bindings):
            if not intrinsic_name(binding.value) or not isinstance(binding.var, relax.DataflowVar):
                continue
            group = _grow(binding, bindings[position + 1 :], users, taken)
            if group is not None:
                groups.append(group)
                taken.update(b.var for b in group.members)
        positions = {binding.var: position for position, binding in enumerate(bindings)}
        for group in groups:
            if intrinsic_name(group.anchor.value) == rewrite_conv2d.INTRINSIC:
                take_addend(group, users, positions)
    return groups


def intrinsic_name(expr: relax.Expr | None) -> str:
    """Return which run-time intrinsic ``expr`` calls; empty if none."""
    if (
        isinstance(expr, tvm.ir.Call)
        and expr.op == _CALL_DPS
        and isinstance(expr.args[0], relax.ExternFunc)
        and expr.args[0].global_symbol in INTRINSICS
    ):
        return str(expr.args[0].global_symbol)
    return ""


def site_of(call: tvm.ir.Call, table: SiteTable) -> CallSite:
    """Return the call site that an intrinsic's call passes."""
    return table.find(int(call.args[1].fields[0].value))


def _grow(
    anchor: relax.VarBinding,
    following: Sequence[relax.VarBinding],
    users: dict[relax.Var, Sequence[relax.Var]],
    taken: set[relax.Var],
) -> Group | None:
    """Return the longest group that starts at ``anchor``, or None if nothing can be fused."""
    group = Group(anchor)
    position_of = {anchor.var: -1}
    # What the longest prefix with one output has; a later member may yet close over an open value.
    best = 0
    for binding in following:
        if binding.var in taken or not _reads(binding.value, position_of):
            continue
        step = _as_step(binding.value, group, position_of)
        if step is None:
            continue
        if len(group.operands) > _MAX_OPERANDS:
            break
        position_of[binding.var] = len(group.members)
        group.members.append(binding)
        group.steps.append(step)
        if _has_one_output(position_of, users):
            best = len(group.members)
        if not isinstance(binding.var, relax.DataflowVar):
            break
    return truncated(group, best) if best else None


def _reads(expr: relax.Expr, position_of: dict[relax.Var, int]) -> bool:
    return isinstance(expr, tvm.ir.Call) and any(
        isinstance(arg, relax.Var) and arg in position_of for arg in expr.args
    )


def _has_one_output(
    position_of: dict[relax.Var, int], users: dict[relax.Var, Sequence[relax.Var]]
) -> bool:
    last = max(position_of.values())
    return all(
        all(user in position_of for user in users.get(var, ()))
        for var, position in position_of.items()
        if position != last
    )


def _as_step(call: tvm.ir.Call, group: Group, position_of: dict[relax.Var, int]) -> Step | None:
    """Return ``call`` as a step of ``group``, whose operands grow by what it reads; else None."""
    out_shape = shape_of(group.anchor.value)
    shape = shape_of(call)
    if find_rule(call) is None or dtype_of(call) != "float32":
        return None
    if out_shape is None or shape is None or not same_shape(shape, out_shape):
        return None
    args: list[Ref | float] = []
    fresh: list[tuple[relax.Expr, OperandKind]] = []
    for expr in call.args:
        if not isinstance(expr.ty, relax.TensorType):
            continue
        if isinstance(expr, relax.Var) and expr in position_of:
            args.append(Ref("step", position_of[expr]))
            continue
        value = constant_array(expr)
        if value is not None and value.size == 1:
            args.append(float(value.reshape(())))
            continue
        known = [*group.operands, *(operand for operand, _ in fresh)]
        index = next((k for k, operand in enumerate(known) if operand.same_as(expr)), None)
        if index is None:
            kind = _kind(expr, group, out_shape)
            if kind is None:
                return None
            index = len(known)
            fresh.append((expr, kind))
        args.append(Ref("operand", index))
    group.operands.extend(operand for operand, _ in fresh)
    group.kinds.extend(kind for _, kind in fresh)
    return Step(call, tuple(args))


def _kind(expr: relax.Expr, group: Group, out_shape: Sequence[Dim]) -> OperandKind | None:
    shape = shape_of(expr)
    if shape is None or dtype_of(expr) != "float32":
        return None
    if intrinsic_name(group.anchor.value) == rewrite_conv2d.INTRINSIC:
        return conv2d_operand(shape, out_shape)
    arguments = group.anchor.value.args[1]
    b_shape = shape_of(arguments.fields[2])
    assert b_shape is not None, "rewritten operands have known shapes"
    # A packed B has a dimension more than a matrix.
    matrix_dims = 3 if constant_array(arguments.fields[2]) is not None else 2
    folds = all(is_static(dim, 1) for dim in b_shape[:-matrix_dims])
    return matmul_operand(shape, out_shape, folds=folds)
