"""Real models at every shape of the benchmark, against ONNX Runtime."""

from __future__ import annotations

import numpy as np
import onnxruntime
import pytest
from tolerances import MODEL_REL, model_error

from moonpoly import compiler
from moonpoly.error import InputError, MoonPolyError
from moonpoly.model_registry import TIMED, ModelFileError

pytestmark = pytest.mark.slow


def _path(model):
    try:
        return model.path()
    except ModelFileError as err:
        pytest.skip(str(err))


@pytest.mark.parametrize("model", TIMED, ids=lambda model: model.name)
def test_matches_at_every_shape(model, rng):
    path = _path(model)
    executable = compiler.compile(path)
    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    for shape in model.shapes:
        feeds = model.inputs(shape, rng)
        got = executable(**feeds)
        for output, want in zip(session.get_outputs(), session.run(None, feeds), strict=True):
            error = model_error(got[output.name], want)
            assert error <= MODEL_REL["float32"], f"{output.name} at {shape}: {error}"


@pytest.mark.parametrize("model", TIMED, ids=lambda model: model.name)
def test_every_product_is_polymerized(model):
    report = compiler.describe(_path(model))["report"]
    left = [e for e in report if e["op"] in ("matmul", "conv2d") and e["status"] == "scheduled"]
    assert all("depthwise" in entry["reason"] for entry in left), left
    assert all(entry["reason"] for entry in report if entry["status"] == "scheduled")


def test_a_sequence_longer_than_the_table_of_positions_is_refused():
    executable = compiler.compile(_path(TIMED[0]))
    tokens = np.ones((1, 513), dtype=np.int64)
    with pytest.raises(InputError, match="sequence_length can be 512 at most"):
        executable(input_ids=tokens, attention_mask=tokens)


def test_tokens_outside_the_vocabulary_are_refused():
    executable = compiler.compile(_path(TIMED[0]))
    tokens = np.full((1, 5), 10**9, dtype=np.int64)
    with pytest.raises(MoonPolyError, match=r"Gather' is given index 1000000000 of an axis of"):
        executable(input_ids=tokens, attention_mask=np.ones_like(tokens))
