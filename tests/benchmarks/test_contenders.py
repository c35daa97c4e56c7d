"""A contender gives its outputs whatever a file says of them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest

from moonpoly.benchmarks.contenders.onnxruntime_model import OnnxRuntimeModel


@pytest.mark.parametrize("declared", ["[n,3]", "[7,3]", "[n,1,3]"])
def test_onnxruntime_gives_its_outputs_in_any_declared_shape(tmp_path: Path, declared: str) -> None:
    """Exporters write sizes and ranks that the graph doesn't compute."""
    text = f"""<ir_version: 8, opset_import: ["" : 17]>
        g (float[n,3] x, int64[r] to) => (float{declared} y) {{ y = Reshape(x, to) }}"""
    path = tmp_path / "model.onnx"
    onnx.save(onnx.parser.parse_model(text), path)
    x = np.random.default_rng().standard_normal((5, 3), dtype=np.float32)
    contender = OnnxRuntimeModel(threads=1)
    contender.load(str(path))
    bound = contender.bind({"x": x, "to": np.array([5, 3])})
    bound.call()
    np.testing.assert_array_equal(bound.outputs()["y"], x)
