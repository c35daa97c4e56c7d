"""Every form of attention, of the standard and of ONNX Runtime's domain."""

from moonpoly.compiler.frontend.converters.attention import (
    cache,
    contrib,
    grouped,
    rotary,
    standard,
)

__all__ = ["cache", "contrib", "grouped", "rotary", "standard"]
