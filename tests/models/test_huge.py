"""A model whose weights take more than 2 GB, which no protobuf message can hold.

Run with ``scripts/test -m huge``: it takes 10 GB of memory, 12 GB of disk and some minutes.
"""

from __future__ import annotations

import resource
import subprocess
import sys

import numpy as np
import onnx
import onnxruntime
import psutil
import pytest
from onnx import TensorProto, helper
from tolerances import MODEL_REL, model_error

import moonpoly

pytestmark = pytest.mark.huge

WIDTH, LAYERS = 6144, 15
_NEEDED_GB = {"memory": 10, "disk": 12}


@pytest.fixture
def path(tmp_path, rng):
    """A model of 2.26 GB: products with activations between, weights in a file beside it."""
    free = {
        "memory": psutil.virtual_memory().available / 1e9,
        "disk": psutil.disk_usage(str(tmp_path)).free / 1e9,
    }
    for what, needed in _NEEDED_GB.items():
        if free[what] < needed:
            pytest.skip(f"{needed} GB of {what} are needed, {free[what]:.1f} are free")
    nodes, weights, last = [], [], "x"
    with (tmp_path / "weights.bin").open("wb") as stream:
        for layer in range(LAYERS):
            weight = rng.standard_normal((WIDTH, WIDTH), dtype=np.float32)
            weight /= np.float32(np.sqrt(WIDTH))
            tensor = TensorProto(
                name=f"w{layer}",
                data_type=TensorProto.FLOAT,
                dims=weight.shape,
                data_location=TensorProto.EXTERNAL,
            )
            place = {"location": "weights.bin", "offset": stream.tell(), "length": weight.nbytes}
            for key, value in place.items():
                tensor.external_data.add(key=key, value=str(value))
            stream.write(weight.tobytes())
            weights.append(tensor)
            nodes.append(helper.make_node("MatMul", [last, f"w{layer}"], [f"m{layer}"]))
            nodes.append(helper.make_node("Tanh", [f"m{layer}"], [f"a{layer}"]))
            last = f"a{layer}"
    ends = [
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, ["n", WIDTH])]
        for name in ("x", last)
    ]
    model = helper.make_model(
        helper.make_graph(nodes, "huge", *ends, weights),
        opset_imports=[helper.make_opsetid("", 17)],
        ir_version=8,
    )
    path = tmp_path / "huge.onnx"
    onnx.save(model, path)
    return path


def test_weights_of_more_than_two_gigabytes(path, rng):
    compiled = path.with_suffix(".so")
    command = [sys.executable, "-m", "moonpoly.cli", "compile", path, "-o", compiled]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    peak_gb = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1e6
    assert peak_gb < _NEEDED_GB["memory"], done.stdout
    assert compiled.stat().st_size > 1 << 31
    executable = moonpoly.load(compiled)
    feeds = [rng.standard_normal((n, WIDTH), dtype=np.float32) for n in (1, 37)]
    got = [next(iter(executable(x=x).values())) for x in feeds]
    del executable
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    for x, ours in zip(feeds, got, strict=True):
        (want,) = session.run(None, {"x": x})
        assert model_error(ours, want) <= MODEL_REL["float32"]
