"""Every version of an operator, from opset 7 to the newest, computes what ONNX Runtime does."""

from __future__ import annotations

import numpy as np
import onnx
import onnxruntime
import pytest
from graphs import Compiled
from onnx.reference import ReferenceEvaluator
from opset_nodes import NEWEST, OLDEST, opset_model
from tolerances import MODEL_REL, model_error

# Above it ONNX Runtime refuses a model.
_NEWEST_OF_ORT = 27


def _oracle(model: onnx.ModelProto):
    """Return what runs a model: ONNX Runtime as the graph stands, or the standard's reference."""
    if model.opset_import[0].version > _NEWEST_OF_ORT:
        return ReferenceEvaluator(model)
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.log_severity_level = 3
    return onnxruntime.InferenceSession(
        model.SerializeToString(), options, providers=["CPUExecutionProvider"]
    )


OPSETS = [opset for opset in range(OLDEST, NEWEST + 1) if opset_model(opset).graph.node]


@pytest.mark.parametrize("opset", OPSETS)
def test_operators_that_an_opset_brings_match(opset, rng):
    model = opset_model(opset)
    run, oracle = Compiled(model), _oracle(model)
    for n, h in ((1, 2), (5, 7)):
        feeds = {
            "x": rng.standard_normal((n, 6)).astype(np.float32),
            "z": rng.standard_normal((n, 6)).astype(np.float32),
            "p": rng.standard_normal((n, 3, h, 8)).astype(np.float32),
            "i": np.argsort(rng.random((n, 6)), axis=1),
            "c": rng.random((n, 6)) < 0.5,
        }
        own = {spec.name for spec in run.executable.inputs}
        feeds = {name: value for name, value in feeds.items() if name in own}
        wanted = oracle.run(None, feeds)
        for value, got, want in zip(model.graph.output, run(**feeds), wanted, strict=True):
            assert (got.shape, got.dtype) == (want.shape, want.dtype), value.name
            assert model_error(got, want) <= MODEL_REL["float32"], value.name
