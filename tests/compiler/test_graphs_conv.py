"""Every form of a convolution, from ONNX to numbers, against ONNX Runtime at awkward sizes."""

from __future__ import annotations

import numpy as np
import pytest
from graphs import Reference, assert_matches_ort, graph

SIZES = [{"N": 1, "H": 7, "W": 8}, {"N": 2, "H": 13, "W": 19}, {"N": 3, "H": 33, "W": 9}]


def _conv(attributes, channels, weight, bias=True, rank=2):
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
    "pointwise": _conv("", 5, (7, 5, 1, 1)),
    "pointwise_strided": _conv("<strides=[2,2]>", 5, (7, 5, 1, 1)),
    "three_by_three": _conv("<pads=[1,1,1,1]>", 3, (17, 3, 3, 3)),
    "strided": _conv("<pads=[1,1,1,1], strides=[2,2]>", 4, (6, 4, 3, 3)),
    "uneven_strides": _conv("<strides=[1,3]>", 4, (6, 4, 2, 3)),
    "uneven_pads": _conv("<pads=[0,2,1,3]>", 4, (6, 4, 3, 3), bias=False),
    "dilated": _conv("<dilations=[2,3], pads=[2,2,2,2]>", 4, (6, 4, 2, 2)),
    "patches": _conv("<strides=[4,4]>", 3, (8, 3, 4, 4)),
    "groups": _conv("<group=2, pads=[1,1,1,1]>", 8, (10, 4, 3, 3)),
    "one_dimension": _conv("<pads=[1,2], strides=[2]>", 4, (6, 4, 3), rank=1),
}


@pytest.mark.parametrize("name", FORMS)
def test_becomes_the_intrinsic(name, rng):
    compiled = Reference(FORMS[name])
    assert [site.op for site in compiled.table.sites] == ["conv2d"]
    assert_matches_ort(FORMS[name], compiled, rng, SIZES)


def test_depthwise_stays_and_is_reported(rng):
    model = _conv("<group=6, pads=[1,1,1,1]>", 6, (6, 1, 3, 3))
    compiled = Reference(model)
    assert compiled.table.sites == []
    (entry,) = [entry for entry in compiled.table.report if entry.op == "conv2d"]
    assert entry.status == "scheduled"
    assert "depthwise" in entry.reason
    assert_matches_ort(model, compiled, rng, SIZES)


def test_dynamic_weight(rng):
    model = graph("g (float[N,3,H,W] x, float[5,3,2,2] w) => (float[N,5,p,q] y) { y = Conv(x, w) }")
    compiled = Reference(model)
    assert [site.op for site in compiled.table.sites] == ["conv2d"]
    assert_matches_ort(model, compiled, rng, SIZES)


def test_batch_normalisation_costs_nothing(rng):
    values = {
        "w": rng.standard_normal((6, 3, 3, 3)).astype(np.float32),
        "gamma": rng.uniform(0.5, 2, 6).astype(np.float32),
        "beta": rng.standard_normal(6).astype(np.float32),
        "mean": rng.standard_normal(6).astype(np.float32),
        "var": rng.uniform(0.5, 2, 6).astype(np.float32),
    }
    model = graph(
        "g (float[N,3,H,W] x) => (float[N,6,p,q] y)"
        "{ c = Conv(x, w) n = BatchNormalization(c, gamma, beta, mean, var) y = Relu(n) }",
        **values,
    )
    compiled = Reference(model)
    (site,) = compiled.table.sites
    assert site.epilogue is not None
    assert site.epilogue.operands == ("row",)
    assert [entry.op for entry in compiled.table.report] == ["conv2d"]
    assert_matches_ort(model, compiled, rng, SIZES)
