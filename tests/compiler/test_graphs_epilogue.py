"""Element-wise graphs after a product, fused whole, against ONNX Runtime."""

from __future__ import annotations

import numpy as np
import pytest
from graphs import Reference, assert_matches_ort, graph

SIZES = [{"b": 1, "m": 1}, {"b": 2, "m": 7}, {"b": 3, "m": 16}]
_RNG = np.random.default_rng(7)
WEIGHTS = {
    "w": _RNG.standard_normal((9, 37)).astype(np.float32) / 3,
    "bias": _RNG.standard_normal(37).astype(np.float32),
    "half": np.float32(0.5),
    "one": np.float32(1),
    "root2": np.float32(np.sqrt(2)),
    "cubic": np.float32(0.044715),
    "scale": np.float32(np.sqrt(2 / np.pi)),
    "three": np.float32(3),
    "six": np.float32(6),
    "zero": np.float32(0),
}

# The body after `p = MatMul(x, w)`; r is an input of the product's shape.
BODIES = {
    "bias_relu": "v = Add(p, bias) y = Relu(v)",
    "bias_on_the_left": "v = Add(bias, p) y = Sub(one, v)",
    "clip": "v = Add(p, bias) y = Clip(v, zero, six)",
    "sigmoid": "v = Add(p, bias) y = Sigmoid(v)",
    "tanh": "y = Tanh(p)",
    "exp": "y = Exp(p)",
    "abs_neg": "a = Abs(p) y = Neg(a)",
    "sqrt": "a = Abs(p) y = Sqrt(a)",
    "silu": "v = Add(p, bias) s = Sigmoid(v) y = Mul(v, s)",
    "gelu_erf": """v = Add(p, bias) d = Div(v, root2) e = Erf(d) o = Add(e, one)
        t = Mul(v, o) y = Mul(t, half)""",
    "gelu_tanh": """v = Add(p, bias) c = Pow(v, three) d = Mul(c, cubic) e = Add(v, d)
        f = Mul(e, scale) g_ = Tanh(f) h = Add(g_, one) i = Mul(v, h) y = Mul(i, half)""",
    "hard_swish": "v = Add(p, bias) y = HardSwish(v)",
    "hard_sigmoid": "v = Add(p, bias) y = HardSigmoid(v)",
    "leaky_relu": "y = LeakyRelu<alpha=0.1>(p)",
    "residual": "v = Add(p, bias) y = Add(v, r)",
    "residual_first": "v = Add(r, p) w_ = Relu(v) y = Add(w_, r)",
    "maximum_minimum": "v = Max(p, r) y = Min(v, half)",
    "gate": "s = Sigmoid(p) t = Tanh(p) u = Mul(s, t) y = Add(u, r)",
    "division": "v = Div(p, six) w_ = Exp(p) z = Add(w_, one) y = Div(v, z)",
}


@pytest.mark.parametrize("name", BODIES)
def test_whole_body_is_one_epilogue(name, rng):
    model = graph(
        f"g (float[b,m,9] x, float[b,m,37] r) => (float[b,m,37] y)"
        f"{{ p = MatMul(x, w) {BODIES[name]} }}",
        **WEIGHTS,
    )
    compiled = Reference(model)
    (site,) = compiled.table.sites
    assert site.epilogue is not None
    assert [entry.op for entry in compiled.table.report] == ["matmul"]
    assert_matches_ort(model, compiled, rng, SIZES)


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
    assert_matches_ort(model, compiled, rng, SIZES)


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
    assert_matches_ort(model, compiled, rng, SIZES)


def test_a_value_used_elsewhere_ends_the_group(rng):
    model = graph(
        "g (float[b,m,9] x) => (float[b,m,37] y, float[b,m,37] z)"
        "{ p = MatMul(x, w) y = Add(p, bias) z = Relu(y) }",
        **WEIGHTS,
    )
    compiled = Reference(model)
    (site,) = compiled.table.sites
    assert site.epilogue is not None
    assert_matches_ort(model, compiled, rng, SIZES)


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
    assert_matches_ort(model, compiled, rng, SIZES)
