"""Operators that make, find or gather positions."""

from __future__ import annotations

import tvm
from tvm import relax

from moonpoly.compiler.frontend.context import Context
from moonpoly.compiler.frontend.converters.registry import converts


@converts("Range")
def _range(ctx: Context) -> relax.Expr | None:
    """Give a range whose ends are known in symbols the length that is known of it."""
    bounds = [ctx.read_integers(index) for index in range(3)]
    if any(bound is None or bound.size != 1 for bound in bounds):
        return None
    numbers = [bound.reshape(())[()] for bound in bounds if bound is not None]
    ends = [n if isinstance(n, tvm.ir.Expr) else tvm.tirx.IntImm("int64", n) for n in numbers]
    return relax.op.arange(*ends, dtype=ctx.dtype(0))
