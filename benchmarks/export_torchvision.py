"""Export a torchvision model with dynamic N, H and W.

``python -m moonpoly.benchmarks.export_torchvision NAME FILE``
"""

from __future__ import annotations

import sys
from pathlib import Path

import torch
import torchvision

_OPSET = 17


def export(name: str, path: Path) -> None:
    """Write `name` with weights drawn by a fixed seed (no download) as ONNX to `path`."""
    torch.manual_seed(0)
    model = getattr(torchvision.models, name)(weights=None).eval()
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
