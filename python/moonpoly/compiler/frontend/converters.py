"""Own importers of ONNX operators that TVM's importer takes apart badly or not at all.

A converter gets the block builder, the operands (None where one is left out), the attributes and
the opset, and returns the result, or None to leave the node to TVM's importer.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from typing import Any

import tvm
from tvm import relax

Converter = Callable[
    [relax.BlockBuilder, Sequence[relax.Expr | None], dict[str, Any], int], relax.Expr | None
]


def find_converter(op_name: str) -> Converter | None:
    """Return the converter of an operator of the standard domain, or None."""
    return _CONVERTERS.get(op_name)


def _clip(
    bb: relax.BlockBuilder,
    inputs: Sequence[relax.Expr | None],
    attrs: dict[str, Any],
    opset: int,
) -> relax.Expr | None:
    data = inputs[0]
    assert data is not None, "the checker wants a first input"
    if opset < 11:
        bounds = [attrs.get("min", -math.inf), attrs.get("max", math.inf)]
    else:
        given = [*inputs[1:3], None, None][:2]
        values = [_scalar(bound) for bound in given]
        if any(
            bound is not None and value is None for bound, value in zip(given, values, strict=True)
        ):
            return None
        bounds = [
            default if value is None or math.isnan(value) else value
            for value, default in zip(values, (-math.inf, math.inf), strict=True)
        ]
    low, high = bounds
    dtype = str(data.ty.dtype)
    if math.isfinite(low) and math.isfinite(high):
        return relax.op.clip(data, _number(low, dtype), _number(high, dtype))
    if math.isfinite(low):
        return relax.op.maximum(data, relax.const(low, dtype))
    if math.isfinite(high):
        return relax.op.minimum(data, relax.const(high, dtype))
    return data


def _scalar(expr: relax.Expr | None) -> float | None:
    if isinstance(expr, tvm.ir.GenericConst) and expr.value.numpy().size == 1:
        return float(expr.value.numpy().reshape(()))
    return None


def _number(value: float, dtype: str) -> float | int:
    return int(value) if "int" in dtype else float(value)


def _range(
    bb: relax.BlockBuilder,
    inputs: Sequence[relax.Expr | None],
    attrs: dict[str, Any],
    opset: int,
) -> relax.Expr | None:
    """Give a range that ends at a symbolic dimension the length that is known of it."""
    bounds = [bound if tvm.ir.is_prim_expr(bound) else _integer(bound) for bound in inputs]
    if any(bound is None for bound in bounds) or not any(map(tvm.ir.is_prim_expr, bounds)):
        return None
    return relax.op.arange(*bounds, dtype="int64")


def _integer(expr: relax.Expr | None) -> int | None:
    if isinstance(expr, tvm.ir.GenericConst) and "int" in str(expr.ty.dtype):
        return int(expr.value.numpy().reshape(())) if expr.value.numpy().size == 1 else None
    return None


def _pairwise(combine: Callable[[relax.Expr, relax.Expr], relax.Expr]) -> Converter:
    """Return a converter that combines any number of operands, two at a time."""

    def convert(
        bb: relax.BlockBuilder,
        inputs: Sequence[relax.Expr | None],
        attrs: dict[str, Any],
        opset: int,
    ) -> relax.Expr:
        return functools.reduce(lambda left, right: bb.normalize(combine(left, right)), inputs)

    return convert


_CONVERTERS: dict[str, Converter] = {
    "Clip": _clip,
    "Max": _pairwise(relax.op.maximum),
    "Min": _pairwise(relax.op.minimum),
    "Range": _range,
    "Sum": _pairwise(relax.op.add),
}
