"""Image models: torchvision's with open batch, height and width, and transformers'."""

from __future__ import annotations

from collections.abc import Callable

import torch
import torchvision
import transformers
from case import Case

_LAYER_SCALE = 0.5
_NHW = {0: "batch", 2: "height", 3: "width"}
_CLASSIFIER_WIDTH = 512


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


def _torchvision(name: str, axes: dict[int, str], **options: object) -> Case:
    model = getattr(torchvision.models, name)(weights=None, **options)
    if name in ("alexnet", "vgg11"):
        # The convolutions are what the architecture is about; the full classifier is 400 MB.
        first = next(m for m in model.classifier if isinstance(m, torch.nn.Linear))
        model.classifier = torch.nn.Sequential(
            torch.nn.Linear(first.in_features, _CLASSIFIER_WIDTH),
            torch.nn.ReLU(),
            torch.nn.Linear(_CLASSIFIER_WIDTH, 1000),
        )
    _condition(model)
    return Case(model.eval(), {"input": torch.randn(2, 3, 224, 224)}, ("output",), {"input": axes})


class _Logits(torch.nn.Module):
    """A transformers image model that returns one tensor."""

    def __init__(self, model: torch.nn.Module, output: str, **options: object) -> None:
        super().__init__()
        self._model = model
        self._output = output
        self._options = options

    def forward(self, pixel_values: torch.Tensor) -> torch.Tensor:
        result: torch.Tensor = self._model(pixel_values, **self._options)[self._output]
        return result


def _transformers(
    model: torch.nn.Module, output: str, height: int, width: int, **options: object
) -> Case:
    return Case(
        _Logits(model.eval(), output, **options).eval(),
        {"pixel_values": torch.randn(2, 3, height, width)},
        (output,),
        {"pixel_values": _NHW},
    )


def _vit() -> Case:
    config = transformers.ViTConfig(
        hidden_size=192,
        num_hidden_layers=3,
        num_attention_heads=3,
        intermediate_size=768,
        image_size=64,
        patch_size=16,
    )
    model = transformers.ViTForImageClassification(config)
    # The table of positions starts at zero: a wrong resize of it would not be seen.
    torch.nn.init.normal_(model.vit.embeddings.position_embeddings, std=0.5)
    return _transformers(model, "logits", 96, 80, interpolate_pos_encoding=True)


def _segformer() -> Case:
    config = transformers.SegformerConfig(
        depths=[1, 1, 1, 1], hidden_sizes=[32, 64, 160, 256], decoder_hidden_size=128, num_labels=19
    )
    return _transformers(transformers.SegformerForSemanticSegmentation(config), "logits", 128, 96)


def _swin() -> Case:
    config = transformers.SwinConfig(
        image_size=224, embed_dim=48, depths=[2, 2, 2], num_heads=[2, 4, 8], window_size=7
    )
    case = _transformers(transformers.SwinModel(config), "last_hidden_state", 224, 224)
    return Case(case.module, case.inputs, case.outputs, {"pixel_values": {0: "batch"}})


def _convnext() -> Case:
    config = transformers.ConvNextConfig(
        depths=[2, 2, 2, 2], hidden_sizes=[48, 96, 192, 384], layer_scale_init_value=_LAYER_SCALE
    )
    return _transformers(transformers.ConvNextForImageClassification(config), "logits", 96, 128)


# Their pools to a fixed grid can't be exported for open heights and widths.
_FIXED = {0: "batch"}

CASES: dict[str, Callable[[], Case]] = {
    "resnet18": lambda: _torchvision("resnet18", _NHW),
    "resnet50": lambda: _torchvision("resnet50", _NHW),
    "mobilenet_v2": lambda: _torchvision("mobilenet_v2", _NHW),
    "mobilenet_v3_small": lambda: _torchvision("mobilenet_v3_small", _NHW),
    "convnext_tiny": lambda: _torchvision("convnext_tiny", _NHW),
    "googlenet": lambda: _torchvision("googlenet", _NHW, aux_logits=False, init_weights=False),
    "vgg11": lambda: _torchvision("vgg11", _FIXED),
    "alexnet": lambda: _torchvision("alexnet", _FIXED),
    "vit": _vit,
    "segformer": _segformer,
    "swin": _swin,
    "convnext": _convnext,
}
