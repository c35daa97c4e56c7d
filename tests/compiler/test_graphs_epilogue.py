"""Element-wise graphs after a product, fused whole, against ONNX Runtime."""

from __future__ import annotations

import numpy as np
import pytest
from cases import EPILOGUE_SIZES, WEIGHTS, epilogue_graphs
from graphs import Reference, assert_matches_ort, graph

GRAPHS = epilogue_graphs()


@pytest.mark.parametrize("name", GRAPHS)
def test_whole_body_is_one_epilogue(name, rng):
    model = GRAPHS[name]
    compiled = Reference(model)
    (site,) = compiled.table.sites
    assert site.epilogue is not None
    assert [entry.op for entry in compiled.table.report] == ["matmul"]
    assert_matches_ort(model, compiled, rng, EPILOGUE_SIZES)


OPERANDS = {
    "row": "float[b,m,1] e",
    "column": "float[37] e",
    "full": "float[b,m,37] e",
    "scalar": "float[1] e",
}


@pytest.mark.parametrize("name", OPERANDS)
def test_kinds_of_operands(name, rng):
    model = graph(
        f"g (float[b,m,9] x, {OPERANDS[name]}) => (float[b,m,37] y)"
        "{ p = MatMul(x, w) v = Mul(p, e) y = Relu(v) }",
        w=WEIGHTS["w"],
    )
    compiled = Reference(model)
    (site,) = compiled.table.sites
    assert site.epilogue is not None
    assert site.epilogue.operands == ({"column": "col"}.get(name, name),)
    assert_matches_ort(model, compiled, rng, EPILOGUE_SIZES)


def test_mask_by_batch_of_an_attention(rng):
    model = graph(
        """g (float[b,2,m,8] q, float[b,2,n,8] k, float[b,1,1,n] mask) => (float[b,2,m,n] y)
        { t = Transpose<perm=[0,1,3,2]>(k) s = MatMul(q, t) d = Div(s, six) y = Add(d, mask) }""",
        six=WEIGHTS["six"],
    )
    compiled = Reference(model)
    (site,) = compiled.table.sites
    assert site.epilogue is not None
    assert site.epilogue.operands == ("col",)
    assert_matches_ort(model, compiled, rng, [{"b": 2, "m": 5, "n": 19}, {"b": 1, "m": 1, "n": 1}])


def test_an_operand_that_does_not_fold_with_the_batch_is_left(rng):
    model = graph(
        "g (float[b,m,9] x, float[b,1,37] e) => (float[b,m,37] y)"
        "{ p = MatMul(x, w) y = Mul(p, e) }",
        w=WEIGHTS["w"],
    )
    compiled = Reference(model)
    (site,) = compiled.table.sites
    assert site.epilogue is None
    assert_matches_ort(model, compiled, rng, EPILOGUE_SIZES)


def test_a_value_used_elsewhere_ends_the_group(rng):
    model = graph(
        "g (float[b,m,9] x) => (float[b,m,37] y, float[b,m,37] z)"
        "{ p = MatMul(x, w) y = Add(p, bias) z = Relu(y) }",
        **WEIGHTS,
    )
    compiled = Reference(model)
    (site,) = compiled.table.sites
    assert site.epilogue is not None
    assert_matches_ort(model, compiled, rng, EPILOGUE_SIZES)


def test_convolution_with_residual_by_channel_and_batch(rng):
    model = graph(
        """g (float[N,4,H,W] x, float[N,6,1,1] s) => (float[N,6,H,W] y)
        { c = Conv<pads=[1,1,1,1]>(x, w, b) r = Relu(c) m = Mul(r, s)
          d = Conv(x, w1) a = Add(m, d) y = HardSwish(a) }""",
        w=rng.standard_normal((6, 4, 3, 3)).astype(np.float32),
        w1=rng.standard_normal((6, 4, 1, 1)).astype(np.float32),
        b=rng.standard_normal(6).astype(np.float32),
    )
    compiled = Reference(model)
    assert len(compiled.table.sites) == 2
    assert {entry.op for entry in compiled.table.report} == {"conv2d"}
    assert_matches_ort(model, compiled, rng, [{"N": 2, "H": 5, "W": 7}, {"N": 1, "H": 16, "W": 16}])


def test_equal_expressions_share_one_function(rng):
    model = graph(
        "g (float[b,m,9] x) => (float[b,m,37] y, float[b,m,37] z)"
        "{ p = MatMul(x, w) p1 = Add(p, bias) y = Relu(p1)"
        "  q = MatMul(x, w2) q1 = Add(q, bias) z = Relu(q1) }",
        w2=WEIGHTS["w"] * 2,
        **WEIGHTS,
    )
    compiled = Reference(model)
    names = {site.epilogue.function for site in compiled.table.sites}
    assert names == {"moonpoly_epilogue_0"}
    assert_matches_ort(model, compiled, rng, EPILOGUE_SIZES)
