"""Quantising and dequantising rounds as ONNX Runtime does, in every granularity."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from node_models import Pair, node_model, random_integers, slow
from onnx import TensorProto, helper

from moonpoly import compiler
from moonpoly.compiler.frontend import import_model
from moonpoly.compiler.passes.fold_constant import FoldConstant
from moonpoly.error import UnsupportedError

F32 = np.float32
TYPES = [np.uint8, slow(np.int8), slow(np.uint16), np.int16]


def element(dtype):
    return helper.np_dtype_to_tensor_dtype(np.dtype(dtype))


def scales(rng, *shape):
    return (rng.random(shape) + 0.01).astype(F32)


@pytest.mark.parametrize("dtype", TYPES)
def test_per_tensor(rng, dtype):
    constants = {"s": F32(0.37), "z": random_integers(rng, dtype, ())}
    pair = Pair(
        node_model(
            "QuantizeLinear",
            {"x": (F32, ["n", "m"])},
            constants=constants,
            output_types=[element(dtype)],
        )
    )
    back = Pair(node_model("DequantizeLinear", {"x": (dtype, ["n", "m"])}, constants=constants))
    for n, m in ((1, 1), (3, 17), (64, 31), (0, 4)):
        # Ties, and values beyond both ends.
        x = np.round(rng.standard_normal((n, m)) * 200) * F32(0.37) / 2
        pair.assert_equal(x=x.astype(F32))
        pair.assert_equal(x=(x * 1e4).astype(F32))
        back.assert_equal(x=random_integers(rng, dtype, (n, m)))


@pytest.mark.parametrize("dtype", [np.uint8, np.int8])
def test_what_is_no_number_becomes_the_least(dtype):
    pair = Pair(
        node_model(
            "QuantizeLinear",
            {"x": (F32, ["n"])},
            constants={"s": F32(0.5), "z": dtype(3)},
            output_types=[element(dtype)],
        )
    )
    ends = [np.nan, np.inf, -np.inf, 3e38, -3e38, -0.0, 1e-40]
    pair.assert_equal(x=np.array(ends * 5, F32))


@pytest.mark.parametrize("axis", [1, -1])
@pytest.mark.parametrize("dtype", [np.uint8, np.int16])
def test_per_axis(rng, dtype, axis):
    shape = ["n", 7, "m"] if axis == 1 else ["n", "m", 7]
    constants = {"s": scales(rng, 7), "z": random_integers(rng, dtype, (7,))}
    pair = Pair(
        node_model(
            "QuantizeLinear",
            {"x": (F32, shape)},
            constants=constants,
            output_types=[element(dtype)],
            axis=axis,
        )
    )
    back = Pair(
        node_model("DequantizeLinear", {"x": (dtype, shape)}, constants=constants, axis=axis)
    )
    for n, m in ((1, 1), (3, 17)):
        sizes = [{"n": n, "m": m}.get(dim, dim) for dim in shape]
        pair.assert_equal(x=(rng.standard_normal(sizes) * 100).astype(F32))
        back.assert_equal(x=random_integers(rng, dtype, sizes))


def test_in_blocks_with_parameters_that_are_inputs(rng):
    shapes = {"x": ["n", 8, "m"], "s": ["n", 2, "m"], "z": ["n", 2, "m"]}
    pair = Pair(
        node_model(
            "QuantizeLinear",
            {"x": (F32, shapes["x"]), "s": (F32, shapes["s"]), "z": (np.int8, shapes["z"])},
            output_types=[TensorProto.INT8],
            axis=1,
            block_size=4,
        )
    )
    back = Pair(
        node_model(
            "DequantizeLinear",
            {"x": (np.int8, shapes["x"]), "s": (F32, shapes["s"]), "z": (np.int8, shapes["z"])},
            axis=1,
            block_size=4,
        )
    )
    for n, m in ((1, 1), (3, 5)):
        parameters = {"s": scales(rng, n, 2, m), "z": random_integers(rng, np.int8, (n, 2, m))}
        pair.assert_equal(x=(rng.standard_normal((n, 8, m)) * 50).astype(F32), **parameters)
        back.assert_equal(x=random_integers(rng, np.int8, (n, 8, m)), **parameters)


def test_int32_is_dequantised_without_a_zero_point(rng):
    pair = Pair(
        node_model("DequantizeLinear", {"x": (np.int32, ["n"])}, constants={"s": F32(0.003)})
    )
    pair.assert_equal(x=rng.integers(-(2**31), 2**31, 1001).astype(np.int32))


def test_half_precision_scales_round_the_product_once(rng):
    pair = Pair(
        node_model(
            "DequantizeLinear",
            {"x": (np.int8, ["n"])},
            constants={"s": np.float16(0.037), "z": np.int8(5)},
            output_types=[TensorProto.FLOAT16],
        )
    )
    pair.assert_equal(x=random_integers(rng, np.int8, (301,)))


@pytest.mark.parametrize("element_type", [TensorProto.INT4, TensorProto.UINT4])
def test_four_bits_there_and_back(rng, element_type):
    low = -8 if element_type == TensorProto.INT4 else 0
    zero = helper.make_tensor("z", element_type, [], [low + 9])
    model = node_model("QuantizeLinear", {"x": (F32, ["n", 6])}, constants={"s": F32(0.3)})
    model.graph.initializer.append(zero)
    model.graph.node[0].input.append("z")
    model.graph.node[0].output[0] = "q"
    model.graph.node.append(helper.make_node("DequantizeLinear", ["q", "s", "z"], ["y"]))
    pair = Pair(model)
    for n in (1, 2, 31):
        pair.assert_equal(x=(rng.standard_normal((n, 6)) * 3).astype(F32))


def test_weights_of_four_bits_in_blocks(rng):
    weight = rng.integers(-8, 8, (16, 6))
    tensor = helper.make_tensor("w", TensorProto.INT4, [16, 6], weight.ravel())
    model = node_model("MatMul", {"x": (F32, ["n", 16])}, operands=["x", "real"])
    model.graph.initializer.extend([tensor, onnx.numpy_helper.from_array(scales(rng, 4, 6), "s")])
    node = helper.make_node("DequantizeLinear", ["w", "s"], ["real"], axis=0, block_size=4)
    model.graph.node.insert(0, node)
    pair = Pair(model)
    pair.assert_close(2e-6, x=rng.standard_normal((5, 16)).astype(F32))


def test_an_input_of_four_bits_is_refused_by_name():
    model = node_model("DequantizeLinear", {"x": (np.int8, ["n"])}, constants={"s": F32(0.3)})
    model.graph.input[0].type.tensor_type.elem_type = TensorProto.INT4
    with pytest.raises(UnsupportedError, match="int4"):
        compiler.compile(model)


def test_dynamic_quantisation(rng):
    pair = Pair(
        node_model(
            "DynamicQuantizeLinear",
            {"x": (F32, ["n", "m"])},
            outputs=["y", "s", "z"],
            output_types=[TensorProto.UINT8, TensorProto.FLOAT, TensorProto.UINT8],
        )
    )
    for n, m in ((1, 1), (3, 17), (64, 999)):
        pair.assert_equal(x=rng.standard_normal((n, m)).astype(F32))


def test_what_is_dequantised_is_rounded_before_it_is_added_to(rng):
    """The sum of a fused product differs in its last bit, and then in what it is quantised to."""
    model = onnx.parser.parse_model(
        """< ir_version: 9, opset_import: ["" : 19] >
        g (uint8[n,7] x, float[n,7] f) => (float[n,7] y)
        <float scale = {0.0078431377}, uint8 zero = {128}> {
            real = DequantizeLinear(x, scale, zero)
            y = Add(real, f)
        }"""
    )
    pair = Pair(model)
    for n in (1, 37, 1024):
        pair.assert_equal(
            x=random_integers(rng, np.uint8, (n, 7)), f=rng.normal(size=(n, 7)).astype(F32)
        )


def test_a_weight_too_large_for_the_reference_evaluator_is_dequantised_at_compile_time(
    rng, monkeypatch
):
    monkeypatch.setattr("moonpoly.compiler.frontend.walk.fold._MAX_ELEMENTS", 16)
    model = node_model(
        "DequantizeLinear",
        {"i": (np.int64, ["n"])},
        constants={"w": random_integers(rng, np.int8, (9, 7)), "s": scales(rng, 7)},
    )
    nodes = model.graph.node
    nodes[0].input[:] = ["w", "s"]
    nodes[0].output[:] = ["real"]
    nodes.append(helper.make_node("Gather", ["real", "i"], ["y"]))
    imported = import_model(model)
    folded = FoldConstant()(imported.module)
    assert "dequantize" not in folded.script()
    Pair(model).assert_equal(i=np.array([0, 8, 3]))


def test_an_average_that_is_a_tie_falls_as_its_sum_in_order_does(rng):
    """Of six numbers, in units of 0.05: each twelfth mean or so lies between two integers."""
    model = onnx.parser.parse_model(
        """< ir_version: 9, opset_import: ["" : 19] >
        g (int8[n,5,h,w] x) => (int8[n,5,p,q] y)
        <float xs = {0.03}, int8 xz = {127}, float ys = {0.05}, int8 yz = {-3}> {
            real = DequantizeLinear(x, xs, xz)
            mean = AveragePool<kernel_shape = [3, 3], strides = [2, 2], pads = [1, 1, 1, 1]>(real)
            y = QuantizeLinear(mean, ys, yz)
        }"""
    )
    pair = Pair(model)
    for n, h, w in ((40, 4, 4), (8, 9, 11), (4, 6, 67)):
        pair.assert_equal(x=random_integers(rng, np.int8, (n, 5, h, w)))
