"""Element-wise and pooling operators on quantised tensors equal ONNX Runtime's, bit for bit."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import onnx
import pytest
from node_models import Pair, node_model, random_integers, slow
from onnx import TensorProto, helper
from tolerances import MODEL_REL

from moonpoly import compiler
from moonpoly.error import MoonPolyError

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
        slow("QLinearAveragePool", {"kernel_shape": [3, 3], "strides": [2, 2], "ceil_mode": 1}),
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


@pytest.mark.parametrize(("opset", "dtype"), [(13, np.uint8), (12, np.int8)])
def test_softmax(rng, opset, dtype):
    """Before opset 13 it is over all axes from the one that is given on."""
    zero = dtype(np.iinfo(dtype).min)
    model = node_model(
        "QLinearSoftmax",
        {"x": (dtype, ["n", "m", "k"])},
        constants={"xs": F32(0.03), "xz": dtype(120), "ys": F32(1 / 256), "yz": zero},
        domain=DOMAIN,
        output_types=[helper.np_dtype_to_tensor_dtype(np.dtype(dtype))],
        axis=1,
    )
    model.graph.node[0].attribute.append(helper.make_attribute("opset", opset))
    pair = Pair(model)
    for n, m, k in ((1, 1, 1), (3, 17, 4), (7, 100, 1)):
        pair.assert_equal(x=random_integers(rng, dtype, (n, m, k)))


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


@pytest.mark.parametrize("dtype", [np.uint8, slow(np.int8)])
def test_where_of_operands_that_broadcast(rng, dtype):
    info = np.iinfo(dtype)
    constants = {
        "xs": F32(0.03),
        "xz": dtype(12),
        "vs": F32(0.05),
        "vz": dtype(info.max),
        "ys": F32(0.04),
        "yz": dtype(info.min),
    }
    shapes = {"c": (bool, ["n", 1]), "x": (dtype, ["n", "m"]), "v": (dtype, ["m"])}
    pair = Pair(
        node_model(
            "QLinearWhere",
            shapes,
            constants=constants,
            operands=["c", "x", "xs", "xz", "v", "vs", "vz", "ys", "yz"],
            domain=DOMAIN,
            output_types=[helper.np_dtype_to_tensor_dtype(np.dtype(dtype))],
        )
    )
    for n, m in ((1, 1), (3, 17), (64, 256)):
        x, v = (random_integers(rng, dtype, shape) for shape in ((n, m), (m,)))
        pair.assert_equal(c=rng.random((n, 1)) < 0.5, x=x, v=v)


def test_mean_is_of_the_real_numbers(rng):
    """ONNX Runtime has the operator but no kernel of it: its parts are the oracle."""
    model = node_model(
        "QLinearReduceMean",
        {"x": (np.int8, ["n", "m", 3])},
        constants={"xs": F32(0.5), "xz": np.int8(-7), "ys": F32(0.25), "yz": np.int8(9)},
        domain=DOMAIN,
        output_types=[TensorProto.INT8],
        axes=[1],
        keepdims=0,
    )
    parts = onnx.parser.parse_model(
        """< ir_version: 9, opset_import: ["" : 18] >
        g (int8[n,m,3] x) => (int8[n,3] y)
        <float xs = {0.5}, int8 xz = {-7}, float ys = {0.25}, int8 yz = {9}, int64[1] axes = {1}> {
            real = DequantizeLinear(x, xs, xz)
            mean = ReduceMean<keepdims = 0>(real, axes)
            y = QuantizeLinear(mean, ys, yz)
        }"""
    )
    mean, oracle = compiler.compile(model), Pair(parts)
    for n, m in ((1, 1), (3, 8), (5, 64)):
        x = random_integers(rng, np.int8, (n, m, 3))
        oracle.assert_equal(x=x)
        np.testing.assert_array_equal(mean(x=x)["y"], oracle.executable(x=x)["y"])


@pytest.mark.parametrize(
    ("bits", "zeros", "scale"), [(4, True, F32), (2, False, F32), slow(8, True, np.float16)]
)
def test_rows_of_a_packed_table(rng, bits, zeros, scale):
    share = 8 // bits
    constants = {
        "table": random_integers(rng, np.uint8, (6, 96 // share)),
        "s": rng.standard_normal((6, 3)).astype(scale),
    }
    if zeros:
        constants["z"] = random_integers(rng, np.uint8, (6, -(-3 // share)))
    _check_rows(rng, constants, scale, bits=bits)


@pytest.mark.parametrize(("dtype", "axis"), [("int4", 0), ("uint4", 1)])
def test_rows_of_a_table_of_four_bits(rng, dtype, axis):
    kind = np.dtype(getattr(ml_dtypes, dtype))
    low = -8 if dtype == "int4" else 0
    constants = {
        "table": rng.integers(low, low + 16, (6, 48)).astype(kind),
        "s": rng.standard_normal((6, 3)).astype(F32),
        "z": rng.integers(low, low + 16, (6, 3)).astype(kind),
    }
    _check_rows(rng, constants, F32, gather_axis=axis)


def _check_rows(rng, constants, scale, gather_axis=0, **attrs):
    block = 32 if "bits" in attrs else 16
    pair = Pair(
        node_model(
            "GatherBlockQuantized",
            {"i": (np.int64, ["n", "m"])},
            constants=constants,
            operands=["table", "i", *list(constants)[1:]],
            domain=DOMAIN,
            output_types=[helper.np_dtype_to_tensor_dtype(np.dtype(scale))],
            block_size=block,
            quantize_axis=1,
            gather_axis=gather_axis,
            **attrs,
        )
    )
    size = constants["table"].shape[gather_axis]
    for n, m in ((1, 1), (3, 4), (0, 2)):
        pair.assert_equal(i=rng.integers(-size, size, (n, m)))
    with pytest.raises(MoonPolyError, match=f"node 'node' is given index {size} of"):
        pair.executable(i=np.array([[size]]))


@pytest.mark.parametrize(
    ("weight", "by_column", "cached"), [(np.int8, False, False), (np.uint8, True, True)]
)
def test_attention(rng, weight, by_column, cached):
    heads, size = 4, 8
    width = heads * size
    columns = (3 * width,) if by_column else ()
    constants = {
        "w": random_integers(rng, weight, (width, 3 * width)),
        "b": rng.standard_normal(3 * width).astype(F32),
        "xs": F32(0.02),
        "ws": np.asarray(rng.random(columns) * 0.01, F32),
        "xz": random_integers(rng, np.uint8, ()),
        "wz": random_integers(rng, weight, columns),
    }
    shapes = {"x": (np.uint8, ["n", "s", width]), "m": (np.int32, ["n", "t"])}
    operands = ["x", "w", "b", "xs", "ws", "m", "xz", "wz"]
    if cached:
        shapes["past"] = (F32, [2, "n", heads, "l", size])
        operands.append("past")
    pair = Pair(
        node_model(
            "QAttention",
            shapes,
            outputs=["y", "present"] if cached else ["y"],
            constants=constants,
            operands=operands,
            domain=DOMAIN,
            num_heads=heads,
            unidirectional=int(cached),
        )
    )
    for n, s, past in ((1, 1, 0), (2, 5, 3), (3, 17, 4)):
        total = s + past if cached else s
        feeds = {
            "x": random_integers(rng, np.uint8, (n, s, width)),
            "m": (rng.random((n, total)) < 0.7).astype(np.int32),
        }
        if cached:
            feeds["past"] = rng.standard_normal((2, n, heads, past, size)).astype(F32)
        pair.assert_close(MODEL_REL["float32"], **feeds)
