"""Builds a small model with stock TVM and the metadata of a compiled one: what `load` must take."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np

import moonpoly

METADATA = {
    "schema": 1,
    "moonpoly": moonpoly.__version__,
    "tvm": "0.27.0.post1",
    "target": {"name": "x86-avx2", "features": ["avx2"], "vector_lanes": {}, "num_pes": 1},
    "digest": "00" * 32,
    "name": "tiny",
    "inputs": [
        {"name": "x", "dtype": "float32", "shape": ["n", 4]},
        {"name": "y:0", "dtype": "float32", "shape": ["n", "m"]},
    ],
    "outputs": [
        {"name": "positive", "dtype": "float32", "shape": ["n", 4]},
        {"name": "next", "dtype": "float32", "shape": ["n", "m"]},
    ],
    "constraints": [],
    "report": [],
    "artifacts": {},
    "sites": [],
}


def build(path: Path, *, metadata: dict | bytes | None = METADATA) -> Path:
    """Write ``positive = max(x, 0)`` and ``next = y + 1`` to ``path``.

    ``metadata=None`` leaves the metadata function out; bytes are stored as they are.
    """
    import tvm
    from tvm import relax
    from tvm.script import ir as I
    from tvm.script import relax as R

    @I.ir_module
    class Module:
        @R.function
        def main(x: R.Tensor(("n", 4), "float32"), y: R.Tensor(("n", "m"), "float32")):
            with R.dataflow():
                a = R.nn.relu(x)
                b = R.add(y, R.const(1.0, "float32"))
                R.output(a, b)
            return (a, b)

    builder = relax.BlockBuilder(Module)
    if metadata is not None:
        text = metadata if isinstance(metadata, bytes) else json.dumps(metadata).encode()
        with builder.function("moonpoly_metadata", []):
            builder.emit_func_output(relax.const(np.frombuffer(text, np.uint8), "uint8"))
    mod = relax.get_pipeline("zero")(builder.get())
    target = tvm.target.Target({"kind": "llvm", "mcpu": "x86-64-v2"})
    tvm.compile(mod, target).export_library(str(path))
    return path
