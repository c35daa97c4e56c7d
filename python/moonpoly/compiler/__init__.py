"""ONNX → Relax → run-time intrinsics and generated code → a model library.

The names are loaded on first use: the front end and the passes need neither the run-time library
nor an artifact.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from moonpoly.compiler.build import build_library, compile, describe

__all__ = ["build_library", "compile", "describe"]


def __getattr__(name: str) -> object:
    if name not in __all__:
        raise AttributeError(f"module 'moonpoly.compiler' has no attribute {name!r}")
    return getattr(importlib.import_module("moonpoly.compiler.build"), name)
