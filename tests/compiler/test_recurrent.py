"""LSTM, GRU and RNN against ONNX Runtime, at sizes that share no factor with a tile."""

from __future__ import annotations

import numpy as np
import onnx
import onnxruntime
import pytest
from graphs import Compiled
from onnx import TensorProto, helper, numpy_helper
from tolerances import MODEL_REL, model_error

from moonpoly import compiler
from moonpoly.compiler import describe
from moonpoly.error import MoonPolyError, UnsupportedError

GATES = {"LSTM": 4, "GRU": 3, "RNN": 1}
# steps, batch
SIZES = [(1, 1), (7, 3), (2, 17)]


def layer(
    op,
    direction="forward",
    inputs=(),
    hidden=13,
    width=5,
    weights_are_inputs=False,
    dtype=TensorProto.FLOAT,
    **attributes,
):
    """Return a model of one layer with the optional operands that ``inputs`` names."""
    rng = np.random.default_rng(hidden)
    d, gates = (2 if direction == "bidirectional" else 1), GATES[op]
    weights = {
        "W": rng.standard_normal((d, gates * hidden, width)) / 3,
        "R": rng.standard_normal((d, gates * hidden, hidden)) / 3,
        "B": rng.standard_normal((d, 2 * gates * hidden)) / 3,
        "P": rng.standard_normal((d, 3 * hidden)) / 3,
    }
    numpy_type = helper.tensor_dtype_to_np_dtype(dtype)
    float_of = {"X": ["s", "b", width], "h": [d, "b", hidden], "c": [d, "b", hidden]}
    order = ["X", "W", "R", "B", "lengths", "h", "c", "P"][: 8 if op == "LSTM" else 6]
    given = {"X", "W", "R", *inputs}
    names = [name if name in given else "" for name in order]
    constants = [
        numpy_helper.from_array(weights[name].astype(numpy_type), name)
        for name in names
        if name in weights and not weights_are_inputs
    ]
    graph_inputs = [helper.make_tensor_value_info("X", dtype, float_of["X"])]
    for name in names[1:]:
        if name == "lengths":
            graph_inputs.append(helper.make_tensor_value_info(name, TensorProto.INT32, ["b"]))
        elif name in float_of or (name in weights and weights_are_inputs):
            shape = float_of.get(name) or list(weights[name].shape)
            graph_inputs.append(helper.make_tensor_value_info(name, dtype, shape))
    outputs = ["Y", "Y_h", "Y_c"][: 3 if op == "LSTM" else 2]
    node = helper.make_node(
        op, names, outputs, name="layer", direction=direction, hidden_size=hidden, **attributes
    )
    graph = helper.make_graph(
        [node],
        "layer",
        graph_inputs,
        [
            helper.make_tensor_value_info(name, dtype, [None] * (4 if name == "Y" else 3))
            for name in outputs
        ],
        constants,
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def feeds_of(model, steps, batch, rng):
    feeds = {}
    for value in model.graph.input:
        dims = value.type.tensor_type.shape.dim
        shape = [dim.dim_value or {"s": steps, "b": batch}[dim.dim_param] for dim in dims]
        if value.name == "lengths":
            feeds[value.name] = rng.integers(min(steps, 1), steps + 1, shape).astype(np.int32)
        else:
            dtype = helper.tensor_dtype_to_np_dtype(value.type.tensor_type.elem_type)
            feeds[value.name] = rng.standard_normal(shape).astype(dtype)
    return feeds


def assert_matches(model, rng, sizes=SIZES):
    run = Compiled(model)
    session = onnxruntime.InferenceSession(
        model.SerializeToString(), providers=["CPUExecutionProvider"]
    )
    for steps, batch in sizes:
        feeds = feeds_of(model, steps, batch, rng)
        for got, want in zip(run(**feeds), session.run(None, feeds), strict=True):
            assert got.shape == want.shape and got.dtype == want.dtype
            assert model_error(got, want) <= MODEL_REL["float32"], (steps, batch)


@pytest.mark.parametrize("direction", ["forward", "reverse", "bidirectional"])
@pytest.mark.parametrize("op", GATES)
def test_every_operand_in_every_direction(op, direction, rng):
    inputs = ["B", "lengths", "h"] + ["c", "P"] * (op == "LSTM")
    assert_matches(layer(op, direction, inputs), rng)


@pytest.mark.parametrize(
    "model",
    [
        layer("LSTM", hidden=1),
        layer("LSTM", inputs=["B"], hidden=64, width=3),
        layer("LSTM", inputs=["B"], input_forget=1),
        layer("LSTM", inputs=["B"], clip=0.3),
        layer("LSTM", inputs=["h"], weights_are_inputs=True),
        layer("LSTM", activations=["HardSigmoid", "Softsign", "Elu"], activation_alpha=[0.3, 0.7]),
        layer("GRU", linear_before_reset=1),
        layer("GRU", inputs=["B", "h"], linear_before_reset=1),
        layer("GRU", "bidirectional", ["B", "lengths"], linear_before_reset=1),
        layer("GRU", inputs=["B"], clip=0.5),
        layer("GRU", inputs=["B"], weights_are_inputs=True),
        layer("RNN", inputs=["B"], activations=["Affine"], activation_alpha=[0.5], clip=2.0),
        layer("RNN", activations=["LeakyRelu"], activation_alpha=[0.2]),
        layer("RNN", activations=["ScaledTanh"], activation_alpha=[0.7], activation_beta=[0.9]),
        layer("RNN", activations=["Softplus"]),
    ],
    ids=lambda model: model.graph.node[0].op_type,
)
def test_attributes(model, rng):
    assert_matches(model, rng, SIZES[1:])


def test_a_batch_first_layer_is_the_transposed_layer(rng):
    first = layer("LSTM", "bidirectional", ["B", "lengths", "h", "c"], layout=1)
    plain = layer("LSTM", "bidirectional", ["B", "lengths", "h", "c"])
    for value in first.graph.input:
        if value.name in ("X", "h", "c"):
            dims = value.type.tensor_type.shape.dim
            left, right = dims[0].SerializeToString(), dims[1].SerializeToString()
            dims[0].ParseFromString(right)
            dims[1].ParseFromString(left)
    session = onnxruntime.InferenceSession(
        plain.SerializeToString(), providers=["CPUExecutionProvider"]
    )
    feeds = feeds_of(plain, 7, 3, rng)
    y, *states = session.run(None, feeds)
    swapped = {
        name: np.ascontiguousarray(np.swapaxes(value, 0, 1)) if value.ndim == 3 else value
        for name, value in feeds.items()
    }
    got = Compiled(first)(**swapped)
    assert model_error(got[0], np.transpose(y, (2, 0, 1, 3))) <= MODEL_REL["float32"]
    for left, right in zip(got[1:], states, strict=True):
        assert model_error(left, np.swapaxes(right, 0, 1)) <= MODEL_REL["float32"]


def test_without_steps_the_state_stays(rng):
    model = layer("LSTM", inputs=["h", "c"])
    feeds = feeds_of(model, 0, 3, rng)
    y, y_h, y_c = Compiled(model)(**feeds)
    assert y.shape == (0, 1, 3, 13)
    np.testing.assert_array_equal(y_h, feeds["h"])
    np.testing.assert_array_equal(y_c, feeds["c"])


def test_half_precision_is_computed_in_single(rng):
    model = layer("GRU", inputs=["B"], dtype=TensorProto.FLOAT16)
    single = layer("GRU", inputs=["B"])
    for left, right in zip(single.graph.initializer, model.graph.initializer, strict=True):
        half = numpy_helper.to_array(right)
        left.CopyFrom(numpy_helper.from_array(half.astype(np.float32), right.name))
    feeds = feeds_of(model, 5, 2, rng)
    session = onnxruntime.InferenceSession(
        single.SerializeToString(), providers=["CPUExecutionProvider"]
    )
    want = session.run(None, {name: value.astype(np.float32) for name, value in feeds.items()})
    for got, exact in zip(Compiled(model)(**feeds), want, strict=True):
        assert got.dtype == np.float16
        np.testing.assert_array_equal(got, exact.astype(np.float16))


def test_lengths_beyond_the_steps_are_refused(rng):
    model = layer("RNN", inputs=["lengths"])
    feeds = feeds_of(model, 2, 2, rng)
    feeds["lengths"] = np.array([1, 3], np.int32)
    with pytest.raises(MoonPolyError, match=r"sequence_lens\[1\] is 3, expected 0 to 2"):
        Compiled(model)(**feeds)


def test_double_precision_is_refused_by_name():
    with pytest.raises(UnsupportedError, match=r"GRU \(node 'layer'.*float64"):
        compiler.compile(layer("GRU", dtype=TensorProto.DOUBLE))


def test_both_products_are_polymerized():
    for op, products in (("LSTM", 2), ("GRU", 3), ("RNN", 2)):
        model = layer(op, inputs=["B"], hidden=32)
        onnx.checker.check_model(model)
        sites = describe(model)["sites"]
        assert [site["op"] for site in sites] == ["matmul"] * products
        assert {site["b"] for site in sites} == {"packed"}
