"""Small ONNX models for the command line's tests."""

from __future__ import annotations

import numpy as np
from onnx import ModelProto, TensorProto, helper, numpy_helper

OPSETS = [helper.make_opsetid("", 17), helper.make_opsetid("com.microsoft", 1)]
WEIGHT = np.random.default_rng(7).standard_normal((12, 20)).astype(np.float32)


def _model(nodes, inputs, outputs, initializers=()) -> ModelProto:
    graph = helper.make_graph(nodes, "graph", inputs, outputs, list(initializers))
    return helper.make_model(graph, opset_imports=OPSETS, ir_version=8)


def _tensor(name, shape):
    return helper.make_tensor_value_info(name, TensorProto.FLOAT, shape)


def linear() -> ModelProto:
    """``y = max(x @ w, 0)`` with a dynamic number of rows."""
    return _model(
        [
            helper.make_node("MatMul", ["x", "w"], ["h"], name="project"),
            helper.make_node("Relu", ["h"], ["y"], name="activate"),
        ],
        [_tensor("x", ["rows", 12])],
        [_tensor("y", ["rows", 20])],
        [numpy_helper.from_array(WEIGHT, "w")],
    )


def unsupported() -> ModelProto:
    """A valid model with an operator of a domain that no front end knows."""
    model = _model(
        [helper.make_node("Unheard", ["x"], ["y"], name="strange", domain="com.example")],
        [_tensor("x", ["rows", 12])],
        [_tensor("y", ["rows", 12])],
    )
    model.opset_import.append(helper.make_opsetid("com.example", 3))
    return model


def cyclic() -> ModelProto:
    """A graph that is no graph: a node reads what a later one writes."""
    return _model(
        [
            helper.make_node("Add", ["x", "b"], ["a"], name="first"),
            helper.make_node("Relu", ["a"], ["b"], name="second"),
        ],
        [_tensor("x", ["rows", 12])],
        [_tensor("b", ["rows", 12])],
    )


def two_towers() -> ModelProto:
    """Two inputs whose dimensions of unlike names must be equal, a product, and an unnamed size."""
    return _model(
        [
            helper.make_node("Concat", ["x", "z"], ["c"], name="join", axis=1),
            helper.make_node("MatMul", ["c", "w"], ["h"], name="project"),
            helper.make_node("Gelu", ["h"], ["g"], name="activate", domain="com.microsoft"),
            helper.make_node("Reshape", ["u", "flat"], ["v"], name="flatten"),
        ],
        [_tensor("x", ["rows", 5]), _tensor("z", ["lines", 7]), _tensor("u", [None, 3])],
        [_tensor("g", ["rows", 20]), _tensor("v", [None])],
        [numpy_helper.from_array(WEIGHT, "w"), numpy_helper.from_array(np.array([-1]), "flat")],
    )


def refused_thrice() -> ModelProto:
    """Three nodes in a chain that can't be compiled, the last two behind the first."""
    model = _model(
        [
            helper.make_node("Unheard", ["x"], ["a"], name="strange", domain="com.example"),
            helper.make_node("MatMul", ["a", "w"], ["h"], name="project"),
            helper.make_node("Pad", ["h", "pads"], ["p"], name="widen", mode="mirror"),
            helper.make_node("Unknown", ["p"], ["y"], name="last", domain="com.example"),
        ],
        [_tensor("x", ["rows", 12])],
        [_tensor("y", ["rows", 20])],
        [numpy_helper.from_array(WEIGHT, "w"), numpy_helper.from_array(np.arange(4), "pads")],
    )
    model.graph.value_info.append(_tensor("a", ["rows", 12]))
    model.opset_import.append(helper.make_opsetid("com.example", 3))
    return model
