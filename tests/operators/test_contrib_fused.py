"""Activations, products and normalisations that ONNX Runtime's optimiser fuses."""

from __future__ import annotations

import numpy as np
import pytest
from node_models import Pair, node_model
from onnx import TensorProto, numpy_helper
from tolerances import ELEMENTWISE_REL, model_error

from moonpoly import compiler

F32 = np.float32
DOMAIN = "com.microsoft"
BOUND = 2 * ELEMENTWISE_REL["float32"]
SIZES = [(1, 1), (3, 17), (2, 64)]


def normal(rng, *shape):
    return rng.standard_normal(shape).astype(F32)


@pytest.mark.parametrize(
    ("op", "bias"),
    [("Gelu", 0), ("FastGelu", 0), ("FastGelu", 1), ("BiasGelu", 1), ("QuickGelu", 0)],
)
def test_activations(rng, op, bias):
    pair = Pair(
        node_model(
            op,
            {"x": (F32, ["n", "s", 7])},
            constants={"b": normal(rng, 7)} if bias else {},
            domain=DOMAIN,
        )
    )
    for n, s in SIZES:
        pair.assert_close(BOUND, x=normal(rng, n, s, 7) * 3)


@pytest.mark.parametrize(
    ("a", "b", "attrs"),
    [
        (["b", "m", "k"], ["b", "k", "n"], {"alpha": 0.3}),
        (["b", "k", "m"], ["b", "n", "k"], {"transA": 1, "transB": 1}),
        (["m", "b", "k"], ["b", "n", "k"], {"transBatchA": 1, "transB": 1}),
        (["b", "m", "k"], ["k", "b", "n"], {"transBatchB": 1}),
    ],
)
def test_fused_matmul(rng, a, b, attrs):
    pair = Pair(node_model("FusedMatMul", {"a": (F32, a), "b": (F32, b)}, domain=DOMAIN, **attrs))
    for m, k in SIZES:
        sizes = {"b": 3, "m": m, "k": k, "n": m + k}
        left, right = ([sizes[dim] for dim in shape] for shape in (a, b))
        pair.assert_close(BOUND, a=normal(rng, *left), b=normal(rng, *right))


@pytest.mark.parametrize("domain", ["", DOMAIN])
def test_simplified_layer_normalization(rng, domain):
    """It is ONNX Runtime's, but its optimiser writes it into the standard's domain."""
    model = node_model(
        "SimplifiedLayerNormalization",
        {"x": (F32, ["n", "s", 40])},
        constants={"scale": normal(rng, 40)},
        domain=domain,
        axis=-1,
        epsilon=1e-5,
    )
    x = normal(rng, 3, 5, 40)
    (got,) = compiler.compile(model)(x=x).values()
    wide = x.astype(np.float64)
    scale = numpy_helper.to_array(model.graph.initializer[0])
    want = wide / np.sqrt((wide**2).mean(-1, keepdims=True) + 1e-5) * scale
    assert model_error(got, want) <= BOUND


@pytest.mark.parametrize("segments", [False, True])
def test_embed_layer_normalization(rng, segments):
    tables = {"words": (50, 24), "places": (70, 24), "kinds": (2, 24)}
    constants = {name: normal(rng, *shape) for name, shape in tables.items()}
    constants |= {"gamma": normal(rng, 24), "beta": normal(rng, 24)}
    if not segments:
        del constants["kinds"]
    inputs = {"ids": (np.int32, ["n", "s"]), "mask": (np.int32, ["n", "s"])}
    if segments:
        inputs["segment"] = (np.int32, ["n", "s"])
    pair = Pair(
        node_model(
            "EmbedLayerNormalization",
            inputs,
            outputs=["y", "counts", "sum"],
            constants=constants,
            operands=[
                *("ids", "segment" if segments else "", "words", "places"),
                *("kinds" if segments else "", "gamma", "beta", "mask"),
            ],
            domain=DOMAIN,
            output_types=[TensorProto.FLOAT, TensorProto.INT32, TensorProto.FLOAT],
        )
    )
    for n, s in SIZES:
        feeds = {"ids": rng.integers(0, 50, (n, s)), "mask": np.arange(s) < s - rng.integers(0, s)}
        feeds["mask"] = np.broadcast_to(feeds["mask"], (n, s))
        if segments:
            feeds["segment"] = rng.integers(0, 2, (n, s))
        pair.assert_close(BOUND, **{key: value.astype(np.int32) for key, value in feeds.items()})


@pytest.mark.parametrize("zeros", [False, True])
@pytest.mark.parametrize(("bits", "block"), [(4, 32), (4, 16), (8, 32)])
def test_products_with_packed_weights(rng, bits, block, zeros):
    n, k = 24, 80
    blocks = -(-k // block)
    constants = {
        "w": rng.integers(0, 256, (n, blocks, block * bits // 8)).astype(np.uint8),
        "s": rng.random((n, blocks)).astype(F32),
    }
    if zeros:
        constants["z"] = rng.integers(0, 256, (n, -(-blocks * bits // 8))).astype(np.uint8)
    pair = Pair(
        node_model(
            "MatMulNBits",
            {"x": (F32, ["m", "s", k])},
            constants=constants,
            domain=DOMAIN,
            N=n,
            K=k,
            bits=bits,
            block_size=block,
            accuracy_level=1,
        )
    )
    for m, s in SIZES:
        pair.assert_close(BOUND, x=normal(rng, m, s, k))
