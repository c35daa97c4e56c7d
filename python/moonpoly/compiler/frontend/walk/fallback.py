"""TVM's own converters, for the operators that they take apart well."""

from __future__ import annotations

import contextlib
import io
import warnings
from collections.abc import Sequence
from typing import Any

import onnx
from tvm import relax
from tvm.relax.frontend.onnx import onnx_frontend

from moonpoly.compiler.frontend.node.attributes import tvm_attributes
from moonpoly.compiler.frontend.node.values import Value

# Operand positions at which TVM's converters take integers as a ShapeExpr.
SHAPE_OPERANDS = {
    "ConstantOfShape": (0,),
    "Expand": (1,),
    "Reshape": (1,),
    "Resize": (3,),
    "Slice": (1, 2, 3, 4),
}


def known_operators() -> frozenset[str]:
    """Return the operators that TVM has a converter for."""
    return frozenset(onnx_frontend._get_convert_map())


def convert_with_tvm(
    bb: relax.BlockBuilder,
    node: onnx.NodeProto,
    name: str,
    opset: int,
    inputs: Sequence[relax.Expr | None],
) -> list[relax.Expr]:
    """Convert ``node`` with TVM's converter and return its results."""
    converter = onnx_frontend._get_convert_map()[node.op_type].get_converter(opset)
    attributes = tvm_attributes(node, name, len(node.output))
    # TVM's converters find a second name of constants in these; here constants come as such.
    scope: list[dict[str, Any]] = [{}, {}]
    with warnings.catch_warnings(), contextlib.redirect_stdout(io.StringIO()):
        # They warn and print about what is checked, or reported as an error, here.
        warnings.simplefilter("ignore")
        result = converter(bb, onnx_frontend.onnx_input(inputs), attributes, scope)
        result = bb.normalize(result)
    if isinstance(result, relax.Tuple):
        return list(result.fields)
    if isinstance(result.ty, relax.TupleType):
        result = bb.emit(result)
        return [bb.emit(relax.TupleGetItem(result, i)) for i in range(len(result.ty.fields))]
    return [result]


def shape_operand(node: onnx.NodeProto, index: int, value: Value) -> relax.Expr | None:
    """Return ``value`` as a ShapeExpr if TVM's converter takes one there, else None."""
    elements = value.elements
    if elements is None or elements.ndim != 1 or index not in SHAPE_OPERANDS.get(node.op_type, ()):
        return None
    return relax.ShapeExpr(list(elements))
