"""Known architectures with random weights, each by both of torch's exporters."""

from __future__ import annotations

from collections.abc import Sequence

from .exports import TorchExport
from .fill import causal_mask, integers, normal, padding_mask, positions
from .specification import Axis, Input, Model, Shape

EXPORTERS = ("script", "dynamo")
_VOCABULARY = 1000
_BATCH, _SEQUENCE = Axis("batch"), Axis("sequence")
_ROWS = ("batch", "sequence")
# Batch, height and width for models that leave all three open: square and not, even and odd.
_IMAGES: tuple[Shape, ...] = (
    (1, 224, 224),
    (1, 192, 256),
    (1, 97, 131),
    (1, 320, 240),
    (2, 160, 160),
    (3, 128, 96),
    (4, 224, 224),
    (7, 64, 64),
    (8, 112, 112),
)
_SMALL_IMAGES: tuple[Shape, ...] = (
    (1, 32, 32),
    (1, 97, 131),
    (1, 224, 224),
    (2, 64, 96),
    (3, 33, 47),
    (5, 128, 64),
)
_FIXED_IMAGES: tuple[Shape, ...] = ((1,), (2,), (3,), (5,), (7,), (8,))
_SENTENCES: tuple[Shape, ...] = ((1, 1), (1, 9), (1, 128), (2, 64), (3, 37), (7, 19), (1, 301))
_STEPS: tuple[Shape, ...] = (
    (1, 0, 7),
    (1, 1, 1),
    (1, 37, 1),
    (2, 5, 3),
    (3, 64, 1),
    (1, 200, 17),
    (5, 0, 33),
)
_PAIRS: tuple[Shape, ...] = (
    (1, 1, 1),
    (1, 9, 50),
    (2, 5, 7),
    (3, 17, 31),
    (1, 64, 100),
    (7, 3, 13),
)


def _both(
    architecture: str,
    inputs: Sequence[Input],
    axes: Sequence[Axis],
    shapes: Sequence[Shape],
    timed: Sequence[str] = (),
) -> tuple[Model, ...]:
    return tuple(
        Model(
            f"{architecture}-{exporter}".replace("_", "-"),
            TorchExport(architecture, exporter),
            tuple(inputs),
            tuple(axes),
            tuple(shapes),
            timed=exporter in timed,
        )
        for exporter in EXPORTERS
    )


def _image(
    architecture: str,
    low: int | None,
    *,
    name: str = "input",
    shapes: Sequence[Shape] = _SMALL_IMAGES,
    timed: Sequence[str] = (),
) -> tuple[Model, ...]:
    """An image model; `low` is the smallest legal height and width, None where both are fixed."""
    if low is None:
        full: tuple[int | str, ...] = ("batch", 3, 224, 224)
        axes: tuple[Axis, ...] = (_BATCH,)
        shapes = _FIXED_IMAGES
    else:
        full = ("batch", 3, "height", "width")
        axes = (_BATCH, Axis("height", low), Axis("width", low))
    return _both(architecture, [Input(name, "float32", full, normal)], axes, shapes, timed)


def _encoder(architecture: str) -> tuple[Model, ...]:
    inputs = [
        Input("input_ids", "int64", _ROWS, integers(_VOCABULARY)),
        Input("attention_mask", "int64", _ROWS, padding_mask),
    ]
    return _both(architecture, inputs, [_BATCH, Axis("sequence", 1, 512)], _SENTENCES)


def _cached_decoder(architecture: str, layers: int, heads: int) -> tuple[Model, ...]:
    cache = ("batch", heads, "past", 64)
    inputs = [
        Input("input_ids", "int64", _ROWS, integers(_VOCABULARY)),
        Input("attention_mask", "int64", ("batch", "past+sequence"), causal_mask),
        Input("position_ids", "int64", _ROWS, positions),
        *(
            Input(f"past_key_values.{layer}.{kind}", "float32", cache, normal)
            for layer in range(layers)
            for kind in ("key", "value")
        ),
    ]
    return _both(architecture, inputs, [_BATCH, Axis("past", 0), _SEQUENCE], _STEPS)


def _cross_decoder(architecture: str, width: int) -> tuple[Model, ...]:
    inputs = [
        Input("decoder_input_ids", "int64", _ROWS, integers(_VOCABULARY)),
        Input("encoder_hidden_states", "float32", ("batch", "encoder_sequence", width), normal),
    ]
    axes = [_BATCH, Axis("sequence", 1, 128), Axis("encoder_sequence")]
    return _both(architecture, inputs, axes, _PAIRS)


def _forecaster(architecture: str, states: Sequence[str]) -> tuple[Model, ...]:
    inputs = [
        Input("series", "float32", (*_ROWS, 24), normal),
        *(Input(name, "float32", (1, "batch", 80), normal) for name in states),
    ]
    return _both(architecture, inputs, [_BATCH, _SEQUENCE], _SENTENCES)


def _tagger(architecture: str) -> tuple[Model, ...]:
    inputs = [Input("input_ids", "int64", _ROWS, integers(_VOCABULARY))]
    return _both(architecture, inputs, [_BATCH, _SEQUENCE], _SENTENCES)


MODELS = (
    *_encoder("bert"),
    *_encoder("distilbert"),
    *_encoder("albert"),
    *_cached_decoder("gpt2", 2, 4),
    *_cached_decoder("llama", 2, 2),
    *_encoder("t5_encoder"),
    *_cross_decoder("t5_decoder", 256),
    *_both(
        "whisper_encoder",
        [Input("input_features", "float32", ("batch", 80, 200), normal)],
        [_BATCH],
        _FIXED_IMAGES,
    ),
    *_cross_decoder("whisper_decoder", 192),
    *_image("vit", 16, name="pixel_values"),
    *_image("segformer", 32, name="pixel_values"),
    *_image("swin", None, name="pixel_values"),
    *_image("convnext", 32, name="pixel_values"),
    *_image("convnext_tiny", 32, shapes=_IMAGES, timed=["script"]),
    *_image("resnet18", 32),
    *_image("resnet50", 32),
    *_image("mobilenet_v2", 32),
    *_image("mobilenet_v3_small", 32, shapes=_IMAGES, timed=["script"]),
    *_image("googlenet", 32),
    *_image("vgg11", None),
    *_image("alexnet", None),
    *_tagger("lstm_tagger"),
    *_tagger("gru_tagger"),
    *_forecaster("lstm_forecaster", ["h", "c"]),
    *_forecaster("gru_forecaster", ["h"]),
)
