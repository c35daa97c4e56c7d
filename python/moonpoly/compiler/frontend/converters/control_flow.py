"""Operators with subgraphs."""

from __future__ import annotations

from collections.abc import Sequence

from tvm import relax

from moonpoly.compiler.frontend.context import Context
from moonpoly.compiler.frontend.converters.registry import converts


@converts("If")
def _if(ctx: Context) -> relax.Expr | Sequence[relax.Expr | None]:
    """Import the branch that is known to be taken, or both."""
    known = ctx.constant(0)
    if known is not None:
        return ctx.graph(ctx.attrs["then_branch" if known.item() else "else_branch"], {})
    condition = ctx.input(0)
    then_branch, else_branch = (
        ctx.branch(ctx.attrs[name], {}) for name in ("then_branch", "else_branch")
    )
    result = ctx.emit(relax.If(condition, then_branch, else_branch))
    if ctx.num_outputs == 1:
        return result
    return [ctx.emit(relax.TupleGetItem(result, index)) for index in range(ctx.num_outputs)]
