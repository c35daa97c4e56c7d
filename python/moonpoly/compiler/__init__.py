"""ONNX → Relax → run-time intrinsics and generated code → a model library."""

from moonpoly.compiler.build import build_library, compile, describe

__all__ = ["build_library", "compile", "describe"]
