"""A reshape becomes a view wherever nothing is computed with it, whatever its sizes are called."""

from __future__ import annotations

import pytest
import tvm
from graphs import Compiled, assert_matches_ort, graph
from modules import dim, module, tensor
from tvm import relax

from moonpoly.compiler.ops.reshape import legalize_reshape

_SIZES = tuple(map(dim, "abcdefg"))
_A, _B, _C, _D, _E, _F, _G = _SIZES


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ((_A, _B, _C, _D), (_A, _B, 1, _C, _D)),
        ((_A, _B, _C, _D), (_A * _B, _C * _D)),
        # Only the run time knows that there are as many elements.
        ((_A, _B, _C, _D), (_E, _F, _G)),
    ],
    ids=["unsqueeze", "flatten", "unproven"],
)
def test_sizes_in_symbols_need_no_copy(before, after):
    x, unproven = tensor("x", *before), tensor("sizes", *after)
    reshaped = relax.op.reshape(x, relax.ShapeExpr(list(after)))
    mod = module([x, unproven], lambda bb: relax.op.exp(bb.emit(reshaped)))
    mod = relax.transform.LegalizeOps({"relax.reshape": legalize_reshape})(mod)
    mod = relax.transform.RewriteDataflowReshape()(mod)
    mod = relax.transform.DeadCodeElimination()(mod)
    programs = [v.name_hint for v, f in mod.functions_items() if isinstance(f, tvm.tirx.PrimFunc)]
    assert programs == ["tir_exp"]


def test_a_reshape_among_other_programs_matches(rng):
    model = graph("""
        agraph (float[a,b,c,d] x, float[f,g] like) => (float[p,q,r,t] y, float[u,v] z, float s) {
            zero = Constant<value_ints=[0]>()
            split = Constant<value_ints=[0, -1, 1, 2]>()
            twice = Add(x, x)
            parts = Reshape(twice, split)
            turned = Transpose<perm=[3, 0, 2, 1]>(parts)
            y = Exp(turned)
            shape = Shape(like)
            free = Reshape<allowzero=1>(twice, shape)
            z = Neg(free)
            scalar = ReduceSum<keepdims=1>(x)
            none = ConstantOfShape<value=int64[1] {1}>(zero)
            flat = Reshape(scalar, none)
            s = Neg(flat)
        }
    """)
    sizes = [
        {"a": 1, "b": 1, "c": 1, "d": 2, "f": 1, "g": 2},
        {"a": 2, "b": 3, "c": 5, "d": 4, "f": 24, "g": 5},
        {"a": 2, "b": 0, "c": 5, "d": 2, "f": 0, "g": 5},
    ]
    assert_matches_ort(model, Compiled(model), rng, sizes)
