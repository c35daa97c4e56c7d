"""Questions about symbolic shapes that several passes ask."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias

import tvm
import tvm_ffi
from tvm import relax

# A symbolic or constant size: an integer expression of TVM's.
Dim: TypeAlias = Any


def shape_of(expr: relax.Expr) -> list[Dim] | None:
    """Return the dimensions of a tensor expression, or None where they are not known."""
    ty = expr.ty
    if not isinstance(ty, relax.TensorType) or not isinstance(ty.shape, relax.ShapeExpr):
        return None
    return list(ty.shape.values)


def dtype_of(expr: relax.Expr) -> str:
    """Return the dtype's name of a tensor expression; empty where it is not known."""
    ty = expr.ty
    return str(ty.dtype) if isinstance(ty, relax.TensorType) and ty.dtype is not None else ""


def is_static(dim: Dim, value: int | None = None) -> bool:
    """Whether ``dim`` is a number (equal to ``value``, where that is given)."""
    return isinstance(dim, tvm.tirx.IntImm) and (value is None or int(dim) == value)


def same_dim(left: Dim, right: Dim) -> bool:
    """Whether two dimensions are equal for every value of their symbols."""
    if is_static(left) and is_static(right):
        return int(left) == int(right)
    if tvm_ffi.structural_equal(left, right):
        return True
    return bool(tvm.sym.Analyzer().can_prove_equal(left, right))


def same_shape(left: Sequence[Dim], right: Sequence[Dim]) -> bool:
    """Whether two shapes are equal for every value of their symbols."""
    return len(left) == len(right) and all(map(same_dim, left, right))
