"""Between tensors in memory and elements that are known in symbols."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import tvm
from tvm import relax, te, tirx

from moonpoly.compiler.frontend.node.values import is_symbolic
from moonpoly.compiler.frontend.symbolic.elements import as_expr, as_real


def lay_down(bb: relax.BlockBuilder, elements: np.ndarray, dtype: str) -> relax.Expr:
    """Emit what writes ``elements`` into memory as a tensor of ``dtype``."""
    if np.issubdtype(np.dtype(dtype), np.floating):
        reals = [as_expr(as_real(item)) for item in elements.flat]
        tensor = bb.emit(bb.call_te(_written, reals))
        source = "float32"
    else:
        flat = [_int64(item) for item in elements.flat]
        tensor = bb.emit(relax.op.shape_to_tensor(relax.ShapeExpr(flat)))
        source = "int64"
    if elements.ndim != 1:
        tensor = bb.emit(relax.op.reshape(tensor, elements.shape))
    return tensor if dtype == source else bb.emit(relax.op.astype(tensor, dtype))


def _written(elements: Sequence[tvm.ir.Expr]) -> te.Tensor:
    def element(position: tirx.Var) -> tvm.ir.Expr:
        value = elements[-1]
        for index, item in reversed(list(enumerate(elements[:-1]))):
            value = tirx.Select(position == index, item, value)
        return value

    return te.compute((len(elements),), element, name="elements")


def read_integers(bb: relax.BlockBuilder, tensor: relax.Expr, symbols: Sequence[tirx.Var]) -> None:
    """Emit what gives ``symbols`` the values of the elements of an integer tensor."""
    flat = bb.emit(relax.op.reshape(tensor, (len(symbols),)))
    if str(flat.ty.dtype) != "int64":
        flat = bb.emit(relax.op.astype(flat, "int64"))
    ty = relax.ShapeType(ndim=len(symbols))
    shape = relax.op.call_pure_packed("vm.builtin.tensor_to_shape", flat, ty_args=ty)
    bb.match_cast(bb.emit(shape), relax.ShapeType(list(symbols)))


def _int64(item: Any) -> tvm.ir.Expr:
    if not is_symbolic(item):
        return tirx.IntImm("int64", int(item))
    return item if str(item.ty.dtype) == "int64" else tirx.Cast("int64", item)
