"""A tensor in another shape of as many elements."""

from __future__ import annotations

import functools
import operator
from collections.abc import Sequence

import tvm
from tvm import relax, te, tirx

from moonpoly.compiler.ops.bounds import int64


def reshape(x: te.Tensor, shape: Sequence[tirx.Expr]) -> te.Tensor:
    """Return ``x`` in another shape of as many elements.

    TVM's own takes the outermost index modulo its extent, which changes nothing and can't be
    simplified away where extents are symbolic: each element would be found by a chain of divisions.
    """

    def element(*place: tirx.Var) -> tirx.Expr:
        rest = int64(0)
        for at, extent in zip(place, shape, strict=True):
            rest = rest * int64(extent) + int64(at)
        indices: list[tirx.Expr] = []
        for extent in reversed(x.shape[1:]):
            indices.insert(0, tirx.floormod(rest, int64(extent)))
            rest = tirx.floordiv(rest, int64(extent))
        return x(*[rest, *indices][: len(x.shape)])

    return te.compute(list(shape), element, name="T_reshape", tag="injective")


def legalize_reshape(bb: relax.BlockBuilder, call: tvm.ir.Call) -> relax.Expr:
    """Return a call of a loop program for a ``relax.reshape`` that can be fused with others.

    Where it takes the run time to know that there are as many elements, no other program can be
    fused with it: it stays what it is, and becomes a view.
    """
    shape = call.args[1]
    if isinstance(shape, tvm.ir.Var):
        shape = bb.lookup_binding(shape)
    x = call.args[0]
    counts = [functools.reduce(operator.mul, each.values, int64(1)) for each in (x.ty.shape, shape)]
    if not tvm.sym.Analyzer().can_prove_equal(*counts):
        return call
    return bb.call_te(reshape, x, shape, primfunc_name_hint="reshape")
