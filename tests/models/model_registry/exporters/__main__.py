"""Export one architecture with random weights and open axes to ONNX.

``python exporters NAME EXPORTER FILE``, with EXPORTER ``script`` (the TorchScript exporter) or
``dynamo``. It runs in whatever environment has torch, torchvision and transformers, which need
not be the one that has MoonPoly.
"""

from __future__ import annotations

import inspect
import sys

import sequence
import text
import torch
import vision
from case import Case

CASES = vision.CASES | text.CASES | sequence.CASES
_SCRIPT_OPSET = 17
_DYNAMO_OPSET = 20


def export(name: str, exporter: str, path: str) -> None:
    """Write the model `name`, whose weights are drawn by a fixed seed, to `path`."""
    torch.manual_seed(0)
    case = CASES[name]()
    arguments = tuple(case.inputs.values())
    outputs = list(case.outputs)
    with torch.no_grad():
        if exporter == "script":
            torch.onnx.export(
                case.module,
                arguments,
                path,
                input_names=list(case.inputs),
                output_names=outputs,
                dynamic_axes=case.axes,
                opset_version=_SCRIPT_OPSET,
                dynamo=False,
            )
        else:
            shapes = [case.axes.get(name, {}) for name in case.inputs]
            fixed = len(case.inputs) - _starred(case)
            dynamic = tuple(shapes[:fixed]) + ((tuple(shapes[fixed:]),) if _starred(case) else ())
            program = torch.onnx.export(
                case.module,
                arguments,
                input_names=list(case.inputs),
                output_names=outputs,
                dynamic_shapes=dynamic,
                opset_version=_DYNAMO_OPSET,
                dynamo=True,
                verbose=False,
            )
            assert program is not None, "without a file name the exporter returns the program"
            program.save(path, external_data=False)


def _starred(case: Case) -> int:
    """How many inputs the module takes through ``*args``."""
    parameters = inspect.signature(case.module.forward).parameters.values()
    named = sum(p.kind is p.POSITIONAL_OR_KEYWORD for p in parameters)
    return len(case.inputs) - named if any(p.kind is p.VAR_POSITIONAL for p in parameters) else 0


if __name__ == "__main__":
    export(*sys.argv[1:4])
