"""Products and convolutions of quantised tensors equal ONNX Runtime's, bit for bit."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from node_models import Pair, node_model, random_integers
from onnx import TensorProto

from moonpoly import compiler
from moonpoly.error import UnsupportedError

F32 = np.float32
BYTES = [np.uint8, np.int8]
MICROSOFT = "com.microsoft"
SIZES = [(1, 1), (2, 3), (3, 17), (2, 64)]


@pytest.mark.parametrize(("left", "right"), list(itertools.product(BYTES, BYTES)))
def test_matmul_integer_with_a_constant(rng, left, right):
    pair = Pair(
        node_model(
            "MatMulInteger",
            {"a": (left, ["b", "m", 37])},
            constants={
                "w": random_integers(rng, right, (37, 21)),
                "az": random_integers(rng, left, ()),
                "bz": random_integers(rng, right, (21,)),
            },
            output_types=[TensorProto.INT32],
        )
    )
    for b, m in SIZES:
        pair.assert_equal(a=random_integers(rng, left, (b, m, 37)))


@pytest.mark.parametrize(
    ("a_shape", "b_shape"),
    [
        (["b", "m", "k"], ["b", "k", "n"]),
        (["m", "k"], ["k", "n"]),
        (["b", 1, "m", "k"], ["c", "k", "n"]),
        (["k"], ["k", "n"]),
        (["b", "m", "k"], ["k"]),
    ],
    ids=["batches", "matrices", "broadcast", "row", "column"],
)
def test_matmul_integer_of_two_inputs(rng, a_shape, b_shape):
    pair = Pair(
        node_model(
            "MatMulInteger",
            {"a": (np.uint8, a_shape), "w": (np.int8, b_shape)},
            output_types=[TensorProto.INT32],
        )
    )
    for sizes in (
        {"b": 1, "c": 1, "m": 1, "n": 1, "k": 1},
        {"b": 2, "c": 3, "m": 7, "n": 33, "k": 19},
    ):
        a, w = ([sizes.get(dim, dim) for dim in shape] for shape in (a_shape, b_shape))
        pair.assert_equal(a=random_integers(rng, np.uint8, a), w=random_integers(rng, np.int8, w))


def test_sums_beyond_what_float32_holds_are_exact(rng):
    pair = Pair(
        node_model(
            "MatMulInteger",
            {"a": (np.uint8, ["m", 5000])},
            constants={"w": np.full((5000, 3), 255, np.uint8)},
            output_types=[TensorProto.INT32],
        )
    )
    a = np.full((2, 5000), 255, np.uint8)
    a[0, 0] = 254
    pair.assert_equal(a=a)


def test_operands_of_sixteen_bits_are_refused_by_name():
    model = node_model(
        "MatMulInteger16",
        {"a": (np.int16, ["m", 5]), "w": (np.int16, [5, "n"])},
        domain=MICROSOFT,
        output_types=[TensorProto.INT32],
    )
    model.graph.node[0].op_type = "QLinearMatMul16"
    with pytest.raises(UnsupportedError, match="QLinearMatMul16"):
        compiler.compile(model)


@pytest.mark.parametrize("dtype", BYTES)
def test_qlinear_matmul(rng, dtype):
    pair = Pair(
        node_model(
            "QLinearMatMul",
            {"a": (dtype, ["b", "m", 50]), "w": (dtype, ["b", 50, "n"])},
            constants={
                "as": F32(0.03),
                "az": random_integers(rng, dtype, ()),
                "ws": F32(0.011),
                "wz": random_integers(rng, dtype, ()),
                "ys": F32(0.71),
                "yz": random_integers(rng, dtype, ()),
            },
            operands=["a", "as", "az", "w", "ws", "wz", "ys", "yz"],
            output_types=[TensorProto.UINT8 if dtype == np.uint8 else TensorProto.INT8],
        )
    )
    for b, m in SIZES:
        feeds = {"a": (b, m, 50), "w": (b, 50, m + 5)}
        pair.assert_equal(
            **{name: random_integers(rng, dtype, shape) for name, shape in feeds.items()}
        )


@pytest.mark.parametrize(
    "attrs",
    [
        {"pads": [1, 1, 1, 1]},
        {"strides": [2, 2], "auto_pad": "SAME_UPPER"},
        {"strides": [2, 3], "auto_pad": "SAME_LOWER", "dilations": [1, 1]},
        {"dilations": [2, 2], "pads": [2, 1, 0, 2]},
    ],
    ids=["pads", "same_upper", "same_lower", "dilations"],
)
def test_conv_integer(rng, attrs):
    pair = Pair(
        node_model(
            "ConvInteger",
            {"x": (np.uint8, ["n", 4, "h", "w"])},
            constants={
                "k": random_integers(rng, np.uint8, (6, 2, 3, 3)),
                "xz": np.uint8(9),
                "kz": np.uint8(77),
            },
            output_types=[TensorProto.INT32],
            group=2,
            **attrs,
        )
    )
    for n, h in ((1, 5), (2, 9), (1, 16)):
        pair.assert_equal(x=random_integers(rng, np.uint8, (n, 4, h, h + 1)))


@pytest.mark.parametrize("dtype", BYTES)
@pytest.mark.parametrize("bias", [False, True])
def test_qlinear_conv(rng, dtype, bias):
    constants = {
        "xs": F32(0.02),
        "xz": random_integers(rng, dtype, ()),
        "k": random_integers(rng, np.int8, (5, 4, 3, 3)),
        "ks": (rng.random(5) * 0.1).astype(F32),
        "kz": np.zeros(5, np.int8),
        "ys": F32(0.3),
        "yz": random_integers(rng, dtype, ()),
        "b": rng.integers(-1000, 1000, 5).astype(np.int32),
    }
    operands = ["x", "xs", "xz", "k", "ks", "kz", "ys", "yz", "b"]
    if not bias:
        del constants["b"], operands[-1]
    pair = Pair(
        node_model(
            "QLinearConv",
            {"x": (dtype, ["n", 4, "h", "w"])},
            constants=constants,
            operands=operands,
            output_types=[TensorProto.UINT8 if dtype == np.uint8 else TensorProto.INT8],
            pads=[1, 1, 1, 1],
            strides=[2, 2],
        )
    )
    for n, h in ((1, 1), (3, 17), (2, 64)):
        pair.assert_equal(x=random_integers(rng, dtype, (n, 4, h, h + 1)))


def test_dynamic_quantize_matmul(rng):
    pair = Pair(
        node_model(
            "DynamicQuantizeMatMul",
            {"a": (F32, ["b", "m", 50])},
            constants={
                "w": random_integers(rng, np.int8, (50, 21)),
                "ws": rng.random(21).astype(F32),
                "wz": random_integers(rng, np.int8, (21,)),
                "bias": rng.standard_normal(21).astype(F32),
            },
            domain=MICROSOFT,
        )
    )
    for b, m in SIZES:
        pair.assert_close(2e-6, a=rng.standard_normal((b, m, 50)).astype(F32))


def test_matmul_integer_to_float(rng):
    pair = Pair(
        node_model(
            "MatMulIntegerToFloat",
            {"a": (np.uint8, ["b", "m", 50])},
            constants={
                "w": random_integers(rng, np.uint8, (50, 21)),
                "as": F32(0.1),
                "ws": rng.random(21).astype(F32),
                "az": np.uint8(7),
                "wz": random_integers(rng, np.uint8, (21,)),
                "bias": rng.standard_normal(21).astype(F32),
            },
            domain=MICROSOFT,
        )
    )
    for b, m in SIZES:
        pair.assert_close(2e-6, a=random_integers(rng, np.uint8, (b, m, 50)))
