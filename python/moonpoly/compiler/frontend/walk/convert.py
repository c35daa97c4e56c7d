"""One node: by evaluation, by an own converter, or by TVM's."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import tvm
from tvm import relax

from moonpoly.compiler.frontend.converters import find_converter
from moonpoly.compiler.frontend.graph.context import Context
from moonpoly.compiler.frontend.graph.halves import narrow_results, widen_operands
from moonpoly.compiler.frontend.node.values import Value
from moonpoly.compiler.frontend.symbolic import evaluate_node
from moonpoly.compiler.frontend.walk.fallback import (
    convert_with_tvm,
    known_operators,
    shape_operand,
)
from moonpoly.compiler.frontend.walk.fold import fold_node
from moonpoly.compiler.frontend.walk.operands import fit_operands


def convert_node(ctx: Context, opsets: Mapping[str, int]) -> list[Value]:
    """Return the results of a node.

    Parameters
    ----------
    opsets
        Domain → version; the standard domain is "".

    Raises
    ------
    UnsupportedError
        If the operator, or this form of it, can't be imported.
    """
    node = ctx.node
    arrays = [None if value is None else value.array for value in ctx.values]
    if all(
        value is None or array is not None for value, array in zip(ctx.values, arrays, strict=True)
    ):
        folded = fold_node(node, arrays, opsets)
        if folded is not None:
            return [Value(array=np.asarray(array)) for array in folded]
    evaluated = evaluate_node(ctx)
    if evaluated is not None:
        return evaluated
    narrow = widen_operands(ctx)
    fit_operands(ctx)
    converter = find_converter(node.domain, node.op_type)
    converted = converter(ctx) if converter else None
    if converted is None:
        if node.op_type not in known_operators():
            ctx.unsupported("this form of the operator can't be imported")
        converted = convert_with_tvm(ctx.bb, ctx.node, ctx.name, ctx.opset, _for_tvm(ctx))
    results = [converted] if isinstance(converted, tvm.ir.Expr | Value) else list(converted)
    if narrow is not None:
        results = narrow_results(ctx, results, narrow)
    named = [name for name in node.output if name]
    if len(results) < len(node.output) and any(node.output[len(results) :]):
        ctx.unsupported(f"{len(named)} results are named, {len(results)} can be made")
    return [_value(ctx, result) for result in results]


def _for_tvm(ctx: Context) -> list[relax.Expr | None]:
    if "inputs" in ctx.__dict__:
        return ctx.inputs
    operands: list[relax.Expr | None] = []
    for index, value in enumerate(ctx.values):
        shape = None if value is None else shape_operand(ctx.node, index, value)
        operands.append(ctx.input(index) if shape is None else shape)
    return operands


def _value(ctx: Context, result: relax.Expr | Value | None) -> Value:
    if result is None:
        return Value()
    return result if isinstance(result, Value) else _bind(ctx, result)


def _bind(ctx: Context, result: relax.Expr) -> Value:
    """Bind a call to a variable of the node's name; take integers out of a shape."""
    result = ctx.bb.normalize(result)
    if isinstance(result, relax.ShapeExpr):
        dims = np.empty(len(result.values), dtype=object)
        dims[:] = [ctx.symbols.simplify(dim) for dim in result.values]
        return Value.of_elements(dims, "int64")
    if tvm.ir.is_prim_expr(result):
        return Value.of_elements(ctx.symbols.simplify(result), str(result.ty.dtype))
    is_call = isinstance(result, tvm.ir.Call) and isinstance(result.ty, relax.TensorType)
    if not is_call:
        return Value(expr=result)
    tensor = ctx.bb.emit(result, name_hint=ctx.name)
    if ctx.shape(tensor) is None and ctx.rank(tensor) is not None:
        # The sizes depend on data. Named, they are as good as any to what follows.
        names = [f"{ctx.op.lower()}_dim"] * (ctx.rank(tensor) or 0)
        tensor = ctx.cast_shape(tensor, [ctx.new_dim(name) for name in names])
    return Value(expr=tensor)
