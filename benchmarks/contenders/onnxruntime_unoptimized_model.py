"""ONNX Runtime as the reference of whole models: every operator as the graph has it."""

from __future__ import annotations

import onnxruntime

from .onnxruntime_model import OnnxRuntimeModel


def create(threads: int) -> OnnxRuntimeModel:
    """Create the contender."""
    level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    return OnnxRuntimeModel(threads, level)
