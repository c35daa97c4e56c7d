"""Calls of C++ operators (``src/ops``), which allocate their results."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import tvm
from tvm import relax

from moonpoly.compiler.frontend.graph.context import Context
from moonpoly.compiler.frontend.node.values import Integer


def call_packed(
    ctx: Context,
    name: str,
    args: Sequence[Any],
    shapes: Sequence[Sequence[Integer]],
    dtypes: Sequence[str],
) -> list[relax.Expr]:
    """Emit the call of a C++ operator and return its results.

    Parameters
    ----------
    args
        Tensors, shapes, and numbers.
    shapes
        Of the results, checked at run time; dimensions in them may be new.
    dtypes
        Element types of the results, by NumPy's names.
    """
    types = [
        relax.TensorType(dtype=dtype, ndim=len(shape))
        for shape, dtype in zip(shapes, dtypes, strict=True)
    ]
    exprs = [arg if isinstance(arg, tvm.ir.Expr) else relax.prim_value(arg) for arg in args]
    ty = types[0] if len(types) == 1 else relax.TupleType(types)
    result = ctx.emit(relax.op.call_pure_packed(name, *exprs, ty_args=ty))
    if len(types) == 1:
        return [ctx.cast_shape(result, shapes[0])]
    return [
        ctx.cast_shape(ctx.emit(relax.TupleGetItem(result, index)), shape)
        for index, shape in enumerate(shapes)
    ]
