"""Fuse loop programs into groups that can be built.

Requires: loop programs carry their pattern (``AnnotateTIROpPattern``). Ensures: as ``FuseOps``, and
no group takes a symbol as an argument that the shape of one of its tensors gives it too, which
``FuseTIR`` can't build. That happens where a program without operands (a range, a size put into a
tensor) is the only one in its group to know a dimension of the result; such a program is left
outside. Functional: returns a new module.
"""

from __future__ import annotations

import tvm
from tvm import relax
from tvm.ir import Var

# FuseOps leaves programs of this pattern alone.
_OPAQUE = 8


@tvm.transform.module_pass(opt_level=0, name="FuseGroups")
class FuseGroups:
    """Module pass: see the module's description."""

    def transform_module(self, mod: tvm.IRModule, _ctx: tvm.transform.PassContext) -> tvm.IRModule:
        """Fuse; where a group can't be built, leave out what spoils it and fuse again."""
        while True:
            fused = relax.transform.FuseOps()(mod)
            spoiling = _spoiling(fused)
            if not spoiling:
                return fused
            mod = mod.clone()
            for name in spoiling:
                mod[name] = mod[name].with_attr("op_pattern", _OPAQUE)


def _spoiling(mod: tvm.IRModule) -> set[str]:
    """Return the names of the programs to leave out of their groups."""
    found: set[str] = set()
    for _, func in mod.functions_items():
        if not isinstance(func, relax.Function) or "Primitive" not in (func.attrs or {}):
            continue
        if not _passed(func) & _shown(func):
            continue
        calls = [
            binding.value
            for block in func.body.blocks
            for binding in block.bindings
            if isinstance(binding.value, relax.Call)
        ]
        sources = [call for call in calls if not _reads_tensors(call)]
        found.update(call.args[0].name_hint for call in sources or calls)
    return found


def _passed(func: relax.Function) -> set[Var]:
    """Return the symbols that a group takes as arguments of their own."""
    passed: set[Var] = set()
    for param in func.params:
        if isinstance(param.ty, relax.ShapeType):
            passed.update(value for value in param.ty.values or () if isinstance(value, Var))
        elif not isinstance(param.ty, relax.TensorType):
            passed.add(param)
    return passed


def _shown(func: relax.Function) -> set[Var]:
    """Return the symbols that are a dimension of one of the group's tensors by themselves."""
    types = [*(param.ty for param in func.params), func.ret_ty]
    shown: set[Var] = set()
    while types:
        ty = types.pop()
        if isinstance(ty, tvm.ir.TupleType):
            types.extend(ty.fields)
        elif isinstance(ty, relax.TensorType) and isinstance(ty.shape, relax.ShapeExpr):
            shown.update(dim for dim in ty.shape.values if isinstance(dim, Var))
    return shown


def _reads_tensors(call: relax.Call) -> bool:
    return any(isinstance(operand.ty, relax.TensorType) for operand in call.args[1].fields)
