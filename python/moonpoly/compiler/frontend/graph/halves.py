"""Floats of 16 bits in operators that are computed in float32.

Most add up many terms: a sum of halves loses what the next term adds once it is a thousand times as
large. ONNX Runtime computes these operators in float32 as well, and products in float32 are
polymerized. The others are C++ operators of float32 and float64.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import tvm
from tvm import relax

from moonpoly.compiler.frontend.graph.context import Context
from moonpoly.compiler.frontend.model.standard import STANDARD_DOMAINS
from moonpoly.compiler.frontend.node.values import Value

_HALVES = ("float16", "bfloat16")
_WIDE = frozenset(
    {
        *("AveragePool", "Col2Im", "Conv", "ConvTranspose", "CumSum", "DFT", "DeformConv", "Det"),
        *("Einsum", "Gemm", "RoiAlign", "STFT"),
        *("GlobalAveragePool", "GlobalLpPool", "GridSample", "InstanceNormalization", "LRN"),
        *("LogSoftmax", "LpNormalization", "LpPool", "MatMul", "MeanVarianceNormalization"),
        *("ReduceL1", "ReduceL2", "ReduceLogSum", "ReduceLogSumExp", "ReduceMean", "ReduceProd"),
        *("ReduceSum", "ReduceSumSquare"),
    }
)


def widen_operands(ctx: Context) -> str | None:
    """Make the operands of such an operator float32 if they are halves.

    Returns
    -------
    str or None
        The type that the results are to have, or None where nothing was changed.
    """
    if ctx.domain not in STANDARD_DOMAINS or ctx.op not in _WIDE:
        return None
    narrow = ctx.dtype(0) if ctx.has_input(0) else ""
    if narrow not in _HALVES:
        return None
    ctx.values = [
        _widened(ctx, index) if value is not None and ctx.dtype(index) in _HALVES else value
        for index, value in enumerate(ctx.values)
    ]
    return narrow


def _widened(ctx: Context, index: int) -> Value:
    array = ctx.constant(index)
    if array is not None:
        return Value(array=array.astype(np.float32))
    return Value(expr=ctx.emit(relax.op.astype(ctx.input(index), "float32")))


def narrow_results(
    ctx: Context, results: Sequence[relax.Expr | Value | None], dtype: str
) -> list[relax.Expr | Value | None]:
    """Return float32 results as ``dtype``."""
    return [_narrowed(ctx, result, dtype) for result in results]


def _narrowed(
    ctx: Context, result: relax.Expr | Value | None, dtype: str
) -> relax.Expr | Value | None:
    if isinstance(result, Value):
        expr = result.expr
        return result if expr is None else replace(result, expr=_narrowed(ctx, expr, dtype))
    if result is None or tvm.ir.is_prim_expr(result):
        return result
    tensor = ctx.bb.normalize(result)
    if not isinstance(tensor.ty, relax.TensorType) or str(tensor.ty.dtype) != "float32":
        return tensor
    return relax.op.astype(ctx.emit(tensor), dtype)
