"""Operators that go through data step by step, against ONNX Runtime and NumPy."""

from __future__ import annotations

import numpy as np
import pytest
from node_models import Pair, node_model
from onnx import TensorProto
from tolerances import MODEL_REL

from moonpoly.error import MoonPolyError

F32, F64, I64 = np.float32, np.float64, np.int64


@pytest.mark.parametrize("time_axis", [0, 1])
@pytest.mark.parametrize("dtype", [F32, np.int8])
def test_sequences_are_turned_round(rng, time_axis, dtype):
    sizes = ["t", "b", "d"] if time_axis == 0 else ["b", "t", "d"]
    kind = TensorProto.FLOAT if dtype is F32 else TensorProto.INT8
    inputs = {"x": (dtype, sizes), "lens": (I64, ["b"])}
    attrs = {"time_axis": time_axis, "batch_axis": 1 - time_axis}
    pair = Pair(node_model("ReverseSequence", inputs, output_types=[kind], opset=10, **attrs))
    for steps, batch, width in ((1, 1, 1), (7, 3, 2), (5, 4, 17)):
        shape = (steps, batch, width) if time_axis == 0 else (batch, steps, width)
        x = rng.integers(-100, 100, shape).astype(dtype)
        pair.assert_equal(x=x, lens=rng.integers(1, steps + 1, batch))
    with pytest.raises(MoonPolyError, match=r"sequence_lens\[1\] is 9, expected 0 to 5"):
        pair.executable(x=x, lens=np.array([5, 9, 1, 1]))


@pytest.mark.parametrize("dtype", [F32, F64])
def test_determinants(rng, dtype):
    kind = TensorProto.FLOAT if dtype is F32 else TensorProto.DOUBLE
    inputs = {"x": (dtype, ["b", "n", "n"])}
    model = node_model("Det", inputs, output_types=[kind], opset=22)
    pair = Pair(model, by_reference=True)
    for batch, size in ((1, 1), (3, 2), (2, 11), (0, 3)):
        pair.assert_close(
            MODEL_REL["float32"], x=rng.standard_normal((batch, size, size)).astype(dtype)
        )
    # A pivot of zero, and a matrix of which nothing is left.
    singular = np.array([[[0, 1, 0], [2, 0, 0], [0, 0, 3]], np.ones((3, 3))], dtype)
    pair.assert_equal(x=singular)
