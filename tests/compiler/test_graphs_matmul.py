"""Every form of a matrix product, from ONNX to numbers, against ONNX Runtime at awkward sizes."""

from __future__ import annotations

import numpy as np
import pytest
from graphs import Reference, assert_matches_ort, graph

SIZES = [
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


@pytest.mark.parametrize("name", DYNAMIC)
def test_dynamic_operands(name, rng):
    model = graph(DYNAMIC[name])
    assert_matches_ort(model, Reference(model), rng, SIZES)


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


@pytest.mark.parametrize("name", CONSTANT)
def test_constant_weight(name, rng):
    text, shape = CONSTANT[name]
    model = graph(text, w=_weight(*shape))
    assert_matches_ort(model, Reference(model), rng, SIZES)


def test_static_shapes_are_polymerized_too(rng):
    model = graph("g (float[5,9] a) => (float[5,20] y) { y = MatMul(a, w) }", w=_weight(9, 20))
    compiled = Reference(model)
    assert [site.op for site in compiled.table.sites] == ["matmul"]
    assert_matches_ort(model, compiled, rng, [{}])
