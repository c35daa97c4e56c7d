"""Give each composite size of a loop program's tensors a name.

A size such as ``(h - 1) // 32 + 1`` stands in every index of a tensor, and a schedule copies the
index into every case that it makes: LLVM then spends minutes on divisions that it finds equal.
A size with a name is read once, from the tensor that comes in. Programs that differ in the
expression only become equal, so that one of them serves all.
"""

from __future__ import annotations

from collections.abc import Iterator

import tvm
import tvm_ffi
from tvm import relax, tirx
from tvm.ir import Expr, Var
from tvm.relax.expr_functor import PyExprMutator, mutator
from tvm.tirx import PrimFunc

from moonpoly.compiler.passes.rewriting import rewrite_functions
from moonpoly.compiler.schedule.expression import children, fingerprint

# What a stride or a bound can't be simplified through. Sums and products keep their relations.
_OPAQUE = (tirx.FloorDiv, tirx.FloorMod, tirx.Div, tirx.Mod, tirx.Min, tirx.Max, tirx.Select)


@tvm.transform.module_pass(opt_level=0, name="NameDims")
class NameDims:
    """Module pass: see the module's description.

    Requires programs without a schedule. Ensures that no dimension of a parameter divides, or
    takes the smaller of two, and that no two programs are equal. Functional.
    """

    def transform_module(self, mod: tvm.IRModule, _ctx: tvm.transform.PassContext) -> tvm.IRModule:
        """Name the sizes in every loop program, then let equal programs be one."""
        mod = mod.clone()
        for var, func in list(mod.functions_items()):
            if isinstance(func, PrimFunc):
                mod.update_func(var, name_dims(func))
        return _merge(mod)


def name_dims(func: PrimFunc) -> PrimFunc:
    """Return ``func`` with a variable for each composite size of its parameters."""
    names: dict[object, Var] = {}

    def named(expr: Expr) -> Expr:
        return names.get(fingerprint(expr), expr)

    # The smaller first: a product of two sizes becomes one of two names.
    for dim in sorted(_dims(func), key=_size):
        rest = _replace(dim, named)
        if not isinstance(rest, Var) and _is_opaque(rest):
            names[fingerprint(dim)] = Var(f"dim{len(names)}", dim.ty)
    return _replace(func, named) if names else func


def _replace(root: object, named: object) -> object:
    """Replace from the top: the largest expression that has a name is the one to replace."""
    kinds = (*_OPAQUE, tirx.Add, tirx.Sub, tirx.Mul)
    return tvm_ffi.structural_map(root, (kinds, named), order="pre")


def _dims(func: PrimFunc) -> Iterator[Expr]:
    for param in func.params:
        yield from getattr(param.ty, "shape", ())


def _size(dim: Expr) -> int:
    return 1 + sum(map(_size, children(dim)))


def _is_opaque(dim: Expr) -> bool:
    return isinstance(dim, _OPAQUE) or any(map(_is_opaque, children(dim)))


def _merge(mod: tvm.IRModule) -> tvm.IRModule:
    first: dict[tvm_ffi.StructuralKey, tvm.ir.GlobalVar] = {}
    images: dict[tvm.ir.GlobalVar, tvm.ir.GlobalVar] = {}
    for var, func in mod.functions_items():
        if isinstance(func, PrimFunc):
            kept = first.setdefault(tvm_ffi.StructuralKey(func), var)
            if kept is not var:
                images[var] = kept
    if not images:
        return mod
    return relax.transform.DeadCodeElimination()(rewrite_functions(mod, _Merger(mod, images)))


@mutator
class _Merger(PyExprMutator):
    def __init__(self, mod: tvm.IRModule, images: dict[tvm.ir.GlobalVar, tvm.ir.GlobalVar]) -> None:
        super().__init__(mod)
        self._images = images

    def visit_call_(self, op: tvm.ir.Call) -> relax.Expr:
        call = self.visit_expr_post_order(op)
        if not any(arg in self._images for arg in call.args):
            return call
        args = [self._images.get(arg, arg) for arg in call.args]
        return tvm.ir.Call(call.op, args, call.attrs, call.ty_args, ret_ty=call.ty)
