"""How an extra operand is broadcast over the matrix that a run-time intrinsic computes."""

from __future__ import annotations

from collections.abc import Sequence

from moonpoly.compiler.passes.dims import Dim, is_static, same_dim
from moonpoly.compiler.sites import OperandKind


def matmul_operand(
    shape: Sequence[Dim], out_shape: Sequence[Dim], *, folds: bool
) -> OperandKind | None:
    """Return how an operand is broadcast over the product C, or None if not in a way that can be.

    Parameters
    ----------
    shape
        The operand's; aligned with the last dimensions of C, as in NumPy.
    out_shape
        C's shape (…, m, n).
    folds
        Whether the batch dimensions of C fold into m, because B has none: the operand must then
        fold as well.
    """
    flags = _flags(shape, out_shape)
    if flags is None:
        return None
    *batch, row, column = flags
    candidates: list[tuple[OperandKind, bool]] = [
        ("scalar", row.one and column.one and all(dim.one for dim in batch)),
        ("col", row.one and column.same and (not folds or all(dim.one for dim in batch))),
        ("row", row.same and column.one and (not folds or all(dim.same for dim in batch))),
        ("full", row.same and column.same and (not folds or all(dim.same for dim in batch))),
    ]
    return next((kind for kind, fits in candidates if fits), None)


def conv2d_operand(shape: Sequence[Dim], out_shape: Sequence[Dim]) -> OperandKind | None:
    """Return how an operand is broadcast over a convolution's result, or None.

    ``out_shape`` (N, Cout, P, Q) is seen as N matrices of Cout rows and P·Q columns.
    """
    flags = _flags(shape, out_shape)
    if flags is None:
        return None
    batch, row, *columns = flags
    one, same = all(dim.one for dim in columns), all(dim.same for dim in columns)
    candidates: list[tuple[OperandKind, bool]] = [
        ("scalar", batch.one and row.one and one),
        ("row", row.same and one),
        ("col", row.one and same),
        ("full", batch.same and row.same and same),
    ]
    return next((kind for kind, fits in candidates if fits), None)


class _Flags:
    """Of one dimension: is it 1, and is it the output's?"""

    def __init__(self, dim: Dim | None, out: Dim) -> None:
        self.one = dim is None or is_static(dim, 1)
        self.same = is_static(out, 1) if dim is None else same_dim(dim, out)


def _flags(shape: Sequence[Dim], out_shape: Sequence[Dim]) -> list[_Flags] | None:
    if len(shape) > len(out_shape):
        return None
    aligned = [None] * (len(out_shape) - len(shape)) + list(shape)
    flags = [_Flags(dim, out) for dim, out in zip(aligned, out_shape, strict=True)]
    return flags if all(flag.one or flag.same for flag in flags) else None
