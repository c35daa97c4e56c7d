"""Every form of a matrix product, from ONNX to numbers, against ONNX Runtime at awkward sizes."""

from __future__ import annotations

import numpy as np
import pytest
from cases import MATMUL_SIZES, matmul_graphs
from graphs import Reference, assert_matches_ort, graph

GRAPHS = matmul_graphs()


@pytest.mark.parametrize("name", GRAPHS)
def test_matches(name, rng):
    assert_matches_ort(GRAPHS[name], Reference(GRAPHS[name]), rng, MATMUL_SIZES)


def test_static_shapes_are_polymerized_too(rng):
    weight = rng.standard_normal((9, 20)).astype(np.float32)
    model = graph("g (float[5,9] a) => (float[5,20] y) { y = MatMul(a, w) }", w=weight)
    compiled = Reference(model)
    assert [site.op for site in compiled.table.sites] == ["matmul"]
    assert_matches_ort(model, compiled, rng, [{}])
