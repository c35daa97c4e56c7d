"""Operators on images: the rarer forms are computed as the standard says, or refused by name."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

import moonpoly
from moonpoly.error import UnsupportedError


def _model(node, shapes, opset):
    inputs = [
        helper.make_tensor_value_info(name, TensorProto.INT64 if dtype else TensorProto.FLOAT, dims)
        for name, dims, dtype in shapes
    ]
    graph = helper.make_graph(
        [node], "g", inputs, [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)]
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)])


@pytest.mark.skipif(onnx.defs.onnx_opset_version() < 28, reason="this onnx has no such mode")
def test_blocks_move_within_their_channel():
    node = helper.make_node("SpaceToDepth", ["x"], ["y"], blocksize=2, mode="CRD")
    exe = moonpoly.compile(_model(node, [("x", ["n", 3, "h", "w"], False)], 28))
    for n, h, w in ((1, 2, 2), (2, 4, 6), (3, 10, 2)):
        x = np.random.default_rng(h).standard_normal((n, 3, h, w)).astype(np.float32)
        want = x.reshape(n, 3, h // 2, 2, w // 2, 2).transpose(0, 1, 3, 5, 2, 4)
        np.testing.assert_array_equal(exe(x=x)["y"], want.reshape(n, 12, h // 2, w // 2))


@pytest.mark.parametrize(
    ("node", "shapes", "reason"),
    [
        (
            helper.make_node("ConvTranspose", ["x", "w"], ["y"]),
            [("x", [1, 2, 3, 4, 5], False), ("w", [2, 2, 3, 3, 3], False)],
            "three dimensions",
        ),
        (
            helper.make_node("ConvTranspose", ["x", "w"], ["y"], output_shape=[10, 8]),
            [("x", [1, 2, 3, 3], False), ("w", [2, 2, 3, 3], False)],
            "output_shape",
        ),
        (
            helper.make_node(
                "RoiAlign", ["x", "r", "b"], ["y"], mode="max", output_height=2, output_width=2
            ),
            [("x", [1, 1, 8, 8], False), ("r", [3, 4], False), ("b", [3], True)],
            "'max'",
        ),
    ],
    ids=["volume", "output_shape", "max"],
)
def test_what_would_be_wrong_is_refused(node, shapes, reason):
    with pytest.raises(UnsupportedError, match=f"{node.op_type}.*{reason}"):
        moonpoly.compile(_model(node, shapes, 22))
