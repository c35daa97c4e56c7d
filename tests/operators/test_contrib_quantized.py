"""Element-wise and pooling operators on quantised tensors equal ONNX Runtime's, bit for bit."""

from __future__ import annotations

import numpy as np
import pytest
from node_models import Pair, node_model, random_integers, slow
from onnx import TensorProto, helper

F32 = np.float32
DOMAIN = "com.microsoft"


@pytest.mark.parametrize(
    "scales", [slow((0.03, 0.07, 0.05)), (0.25, 0.5, 1.0)], ids=["plain", "ties"]
)
@pytest.mark.parametrize("op", ["QLinearAdd", "QLinearMul"])
def test_of_two_operands(rng, op, scales):
    constants = {
        "as": F32(scales[0]),
        "az": np.uint8(12),
        "bs": F32(scales[1]),
        "bz": np.uint8(131),
        "ys": F32(scales[2]),
        "yz": np.uint8(101),
    }
    pair = Pair(
        node_model(
            op,
            {"a": (np.uint8, ["n", 5]), "b": (np.uint8, ["n", 5])},
            constants=constants,
            operands=["a", "as", "az", "b", "bs", "bz", "ys", "yz"],
            domain=DOMAIN,
            output_types=[TensorProto.UINT8],
        )
    )
    for n in (1, 33, 20_001):
        feeds = {name: random_integers(rng, np.uint8, (n, 5)) for name in "ab"}
        pair.assert_equal(**feeds)


@pytest.mark.parametrize(
    ("op", "attrs"),
    [
        ("QLinearLeakyRelu", {"alpha": 0.1}),
        ("QLinearSigmoid", {}),
        ("QLinearGlobalAveragePool", {}),
        ("QLinearAveragePool", {"kernel_shape": [2, 3], "pads": [1, 1, 0, 1], "strides": [2, 1]}),
    ],
)
@pytest.mark.parametrize("scales", [slow((0.03, 0.01)), (0.25, 1.0)], ids=["plain", "ties"])
def test_of_one_operand(rng, op, attrs, scales):
    x_scale, y_scale = map(F32, scales)
    constants = {"xs": x_scale, "xz": np.uint8(120), "ys": y_scale, "yz": np.uint8(5)}
    pair = Pair(
        node_model(
            op,
            {"x": (np.uint8, ["n", 5, "h", "w"])},
            constants=constants,
            domain=DOMAIN,
            output_types=[TensorProto.UINT8],
            **attrs,
        )
    )
    for n, h in ((1, 1), (2, 7), (3, 32)):
        pair.assert_equal(x=random_integers(rng, np.uint8, (n, 5, h, h + 3)))


def test_softmax(rng):
    constants = {"xs": F32(0.03), "xz": np.uint8(120), "ys": F32(1 / 256), "yz": np.uint8(0)}
    model = node_model(
        "QLinearSoftmax",
        {"x": (np.uint8, ["n", "m"])},
        constants=constants,
        domain=DOMAIN,
        output_types=[TensorProto.UINT8],
        axis=-1,
    )
    model.graph.node[0].attribute.append(helper.make_attribute("opset", 13))
    pair = Pair(model)
    for n, m in ((1, 1), (3, 17), (64, 100)):
        pair.assert_equal(x=random_integers(rng, np.uint8, (n, m)))


def test_concat(rng):
    constants = {
        "ys": F32(0.05),
        "yz": np.uint8(100),
        "as": F32(0.03),
        "az": np.uint8(12),
        "bs": F32(0.07),
        "bz": np.uint8(130),
    }
    pair = Pair(
        node_model(
            "QLinearConcat",
            {"a": (np.uint8, ["n", "p"]), "b": (np.uint8, ["n", 3])},
            constants=constants,
            operands=["ys", "yz", "a", "as", "az", "b", "bs", "bz"],
            domain=DOMAIN,
            output_types=[TensorProto.UINT8],
            axis=1,
        )
    )
    for n, p in ((1, 1), (7, 5)):
        pair.assert_equal(
            a=random_integers(rng, np.uint8, (n, p)), b=random_integers(rng, np.uint8, (n, 3))
        )


@pytest.mark.parametrize("quantized", [True, False])
def test_gemm(rng, quantized):
    constants = {
        "as": F32(0.03),
        "az": np.uint8(12),
        "w": random_integers(rng, np.int8, (7, 50)),
        "ws": rng.random(7).astype(F32),
        "wz": np.zeros(7, np.int8),
        "c": rng.integers(-100, 100, 7).astype(np.int32),
        "ys": F32(3.0),
        "yz": np.uint8(100),
    }
    operands = ["a", "as", "az", "w", "ws", "wz", "c", "ys", "yz"]
    if not quantized:
        del constants["ys"], constants["yz"], operands[-2:]
    pair = Pair(
        node_model(
            "QGemm",
            {"a": (np.uint8, ["n", 50])},
            constants=constants,
            operands=operands,
            domain=DOMAIN,
            output_types=[TensorProto.UINT8 if quantized else TensorProto.FLOAT],
            transB=1,
        )
    )
    for n in (1, 33):
        a = random_integers(rng, np.uint8, (n, 50))
        if quantized:
            pair.assert_equal(a=a)
        else:
            pair.assert_close(2e-6, a=a)
