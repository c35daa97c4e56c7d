"""Every form of a convolution, from ONNX to numbers, against ONNX Runtime at awkward sizes."""

from __future__ import annotations

import numpy as np
import pytest
from cases import CONV_SIZES, FORMS, conv
from graphs import Reference, assert_matches_ort, graph


@pytest.mark.parametrize("name", FORMS)
def test_becomes_the_intrinsic(name, rng):
    compiled = Reference(FORMS[name])
    assert [site.op for site in compiled.table.sites] == ["conv2d"]
    assert_matches_ort(FORMS[name], compiled, rng, CONV_SIZES)


def test_depthwise_stays_and_is_reported(rng):
    model = conv("<group=6, pads=[1,1,1,1]>", 6, (6, 1, 3, 3))
    compiled = Reference(model)
    assert compiled.table.sites == []
    (entry,) = [entry for entry in compiled.table.report if entry.op == "conv2d"]
    assert entry.status == "scheduled"
    assert "depthwise" in entry.reason
    assert_matches_ort(model, compiled, rng, CONV_SIZES)


def test_dynamic_weight(rng):
    model = graph("g (float[N,3,H,W] x, float[5,3,2,2] w) => (float[N,5,p,q] y) { y = Conv(x, w) }")
    compiled = Reference(model)
    assert [site.op for site in compiled.table.sites] == ["conv2d"]
    assert_matches_ort(model, compiled, rng, CONV_SIZES)


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
    assert_matches_ort(model, compiled, rng, CONV_SIZES)
