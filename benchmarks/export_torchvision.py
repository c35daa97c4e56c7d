"""Export a torchvision model with dynamic N, H and W.

``python -m moonpoly.benchmarks.export_torchvision NAME FILE``
"""

from __future__ import annotations

import sys
from pathlib import Path

import torch
import torchvision

_OPSET = 17
_LAYER_SCALE = 0.5


def _condition(model: torch.nn.Module) -> None:
    """Make every layer of an untrained model matter to its output.

    Fresh statistics of batch normalisation let activations fade to nothing, and fresh layer scales
    leave all residual branches out; errors inside would not be seen.
    """
    for label, parameter in model.named_parameters():
        if label.endswith("layer_scale"):
            torch.nn.init.constant_(parameter, _LAYER_SCALE)
    for module in model.modules():
        if isinstance(module, torch.nn.BatchNorm2d):
            module.momentum = 1.0
    model.train()
    with torch.no_grad():
        model(torch.randn(8, 3, 224, 224))


def export(name: str, path: Path) -> None:
    """Write `name` with weights drawn by a fixed seed (no download) as ONNX to `path`."""
    torch.manual_seed(0)
    model = getattr(torchvision.models, name)(weights=None)
    _condition(model)
    model.eval()
    torch.onnx.export(
        model,
        (torch.randn(2, 3, 224, 224),),
        str(path),
        input_names=["input"],
        output_names=["output"],
        dynamic_axes={"input": {0: "N", 2: "H", 3: "W"}, "output": {0: "N"}},
        opset_version=_OPSET,
        dynamo=False,
    )


if __name__ == "__main__":
    export(sys.argv[1], Path(sys.argv[2]))
