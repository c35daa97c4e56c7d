"""Operators on integers of few bits that stand for real numbers."""

from moonpoly.compiler.frontend.converters.quantized import (
    contrib,
    integer_products,
    packed_weights,
    quantization,
    recurrent,
)

__all__ = ["contrib", "integer_products", "packed_weights", "quantization", "recurrent"]
