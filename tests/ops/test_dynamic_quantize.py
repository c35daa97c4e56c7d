"""Quantizing by the tensor's own range gives what ONNX Runtime gives, bit for bit."""

from __future__ import annotations

import numpy as np
import onnxruntime
import pytest
import tvm_ffi
from onnx import TensorProto, helper

from moonpoly import _ffi_api  # noqa: F401  loads the library

dynamic_quantize = tvm_ffi.get_global_func("moonpoly.op.dynamic_quantize")


@pytest.fixture(scope="module")
def reference():
    value = helper.make_tensor_value_info
    graph = helper.make_graph(
        [helper.make_node("DynamicQuantizeLinear", ["x"], ["y", "scale", "zero"])],
        "g",
        [value("x", TensorProto.FLOAT, ["n"])],
        [
            value("y", TensorProto.UINT8, ["n"]),
            value("scale", TensorProto.FLOAT, []),
            value("zero", TensorProto.UINT8, []),
        ],
    )
    model = helper.make_model(
        graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8
    ).SerializeToString()
    session = onnxruntime.InferenceSession(model, providers=["CPUExecutionProvider"])
    return lambda x: session.run(None, {"x": x})


@pytest.mark.parametrize("size", [1, 2, 15, 16, 17, 1000, 100_003])
@pytest.mark.parametrize(
    "spread",
    [
        lambda x: x,
        lambda x: np.abs(x) + 3,
        lambda x: -np.abs(x) - 3,
        lambda x: x * 1e-30,
        lambda x: x * 1e30,
        lambda x: x * 0,
        np.round,
    ],
    ids=["normal", "positive", "negative", "tiny", "huge", "zero", "ties"],
)
def test_matches_onnxruntime(rng, reference, size, spread):
    x = spread(rng.standard_normal(size) * 5).astype(np.float32)
    got = np.empty(size, np.uint8), np.empty((), np.float32), np.empty((), np.uint8)
    dynamic_quantize(x, *got)
    for left, right in zip(got, reference(x), strict=True):
        np.testing.assert_array_equal(left, right)


def test_nothing_has_scale_one():
    got = np.empty((0, 3), np.uint8), np.empty((), np.float32), np.empty((), np.uint8)
    dynamic_quantize(np.empty((0, 3), np.float32), *got)
    assert (got[1], got[2]) == (1, 0)
