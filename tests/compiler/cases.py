"""The graphs that both the passes and the run-time library are tested with."""

from __future__ import annotations

import numpy as np
import onnx
from graphs import graph

MATMUL_SIZES = [
    {"b": 1, "m": 1, "k": 1, "n": 1},
    {"b": 2, "m": 7, "k": 5, "n": 17},
    {"b": 3, "m": 15, "k": 31, "n": 16},
    {"b": 1, "m": 37, "k": 64, "n": 3},
]


def _weight(*shape):
    return np.random.default_rng(sum(shape)).standard_normal(shape).astype(np.float32)


DYNAMIC = {
    "matrices": "g (float[m,k] a, float[k,n] b) => (float[m,n] y) { y = MatMul(a, b) }",
    "batches": "g (float[b,m,k] a, float[b,k,n] b_) => (float[b,m,n] y) { y = MatMul(a, b_) }",
    "batch_of_a_only": """g (float[b,m,k] a, float[k,n] b_) => (float[b,m,n] y)
        { y = MatMul(a, b_) }""",
    "batch_of_b_only": """g (float[m,k] a, float[b,k,n] b_) => (float[b,m,n] y)
        { y = MatMul(a, b_) }""",
    "broadcast_batches": """g (float[b,1,m,k] a, float[3,k,n] b_) => (float[b,3,m,n] y)
        { y = MatMul(a, b_) }""",
    "vector_matrix": "g (float[k] a, float[k,n] b) => (float[n] y) { y = MatMul(a, b) }",
    "matrix_vector": "g (float[m,k] a, float[k] b) => (float[m] y) { y = MatMul(a, b) }",
    "vector_batches": "g (float[k] a, float[b,k,n] b_) => (float[b,n] y) { y = MatMul(a, b_) }",
    "batches_vector": "g (float[b,m,k] a, float[k] b_) => (float[b,m] y) { y = MatMul(a, b_) }",
    "vector_vector": "g (float[k] a, float[k] b) => (float y) { y = MatMul(a, b) }",
    "transposed_a": """g (float[b,k,m] a, float[b,k,n] b_) => (float[b,m,n] y)
        { t = Transpose<perm=[0,2,1]>(a) y = MatMul(t, b_) }""",
    "transposed_b": """g (float[b,m,k] a, float[b,n,k] b_) => (float[b,m,n] y)
        { t = Transpose<perm=[0,2,1]>(b_) y = MatMul(a, t) }""",
    "heads": """g (float[b,m,2,8] a, float[b,n,2,8] b_) => (float[b,m,2,n] y)
        { p = Transpose<perm=[0,2,1,3]>(a) q = Transpose<perm=[0,2,3,1]>(b_)
          s = MatMul(p, q) y = Transpose<perm=[0,2,1,3]>(s) }""",
    "innermost_batch": """g (float[m,k,b] a, float[k,n] b_) => (float[b,m,n] y)
        { t = Transpose<perm=[2,0,1]>(a) y = MatMul(t, b_) }""",
    "gemm": """g (float[m,k] a, float[k,n] b, float[n] c) => (float[m,n] y)
        { y = Gemm<alpha=0.5, beta=2.0>(a, b, c) }""",
    "gemm_transposed": """g (float[k,m] a, float[n,k] b, float[m,1] c) => (float[m,n] y)
        { y = Gemm<alpha=1.5, transA=1, transB=1>(a, b, c) }""",
    "gemm_without_bias": "g (float[m,k] a, float[k,n] b) => (float[m,n] y) { y = Gemm(a, b) }",
}


CONSTANT = {
    "matrix": ("g (float[m,31] a) => (float[m,17] y) { y = MatMul(a, w) }", (31, 17)),
    "batches": ("g (float[b,m,31] a) => (float[b,m,5] y) { y = MatMul(a, w) }", (31, 5)),
    "batches_of_weights": (
        "g (float[b,3,m,8] a) => (float[b,3,m,5] y) { y = MatMul(a, w) }",
        (3, 8, 5),
    ),
    "vector": ("g (float[m,9] a) => (float[m] y) { y = MatMul(a, w) }", (9,)),
    "left": ("g (float[b,9,n] a) => (float[b,4,n] y) { y = MatMul(w, a) }", (4, 9)),
    "gemm": (
        "g (float[m,9] a) => (float[m,33] y) { y = Gemm<transB=1, alpha=0.3>(a, w) }",
        (33, 9),
    ),
}


CONV_SIZES = [{"N": 1, "H": 7, "W": 8}, {"N": 2, "H": 13, "W": 19}, {"N": 3, "H": 33, "W": 9}]


def conv(attributes, channels, weight, bias=True, rank=2):
    dims = "H,W" if rank == 2 else "W"
    out = "p,q" if rank == 2 else "q"
    inputs = "x, w, b" if bias else "x, w"
    values = {"w": np.random.default_rng(1).standard_normal(weight).astype(np.float32)}
    if bias:
        values["b"] = np.linspace(-1, 1, weight[0], dtype=np.float32)
    return graph(
        f"g (float[N,{channels},{dims}] x) => (float[N,{weight[0]},{out}] y)"
        f"{{ y = Conv{attributes}({inputs}) }}",
        **values,
    )


FORMS = {
    "pointwise": conv("", 5, (7, 5, 1, 1)),
    "pointwise_strided": conv("<strides=[2,2]>", 5, (7, 5, 1, 1)),
    "three_by_three": conv("<pads=[1,1,1,1]>", 3, (17, 3, 3, 3)),
    "strided": conv("<pads=[1,1,1,1], strides=[2,2]>", 4, (6, 4, 3, 3)),
    "uneven_strides": conv("<strides=[1,3]>", 4, (6, 4, 2, 3)),
    "uneven_pads": conv("<pads=[0,2,1,3]>", 4, (6, 4, 3, 3), bias=False),
    "dilated": conv("<dilations=[2,3], pads=[2,2,2,2]>", 4, (6, 4, 2, 2)),
    "patches": conv("<strides=[4,4]>", 3, (8, 3, 4, 4)),
    "groups": conv("<group=2, pads=[1,1,1,1]>", 8, (10, 4, 3, 3)),
    "one_dimension": conv("<pads=[1,2], strides=[2]>", 4, (6, 4, 3), rank=1),
}


EPILOGUE_SIZES = [{"b": 1, "m": 1}, {"b": 2, "m": 7}, {"b": 3, "m": 16}]
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


def matmul_graphs() -> dict[str, onnx.ModelProto]:
    """Return every form of a product by name."""
    models = {name: graph(text) for name, text in DYNAMIC.items()}
    for name, (text, shape) in CONSTANT.items():
        models[f"constant_{name}"] = graph(text, w=_weight(*shape))
    return models


def epilogue_graphs() -> dict[str, onnx.ModelProto]:
    """Return every element-wise body after a product by name."""
    return {
        name: graph(
            f"g (float[b,m,9] x, float[b,m,37] r) => (float[b,m,37] y)"
            f"{{ p = MatMul(x, w) {body} }}",
            **WEIGHTS,
        )
        for name, body in BODIES.items()
    }
