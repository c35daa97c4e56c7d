"""Operators on integers of few bits that stand for real numbers."""

from moonpoly.compiler.frontend.converters.quantized import (
    attention,
    contrib,
    gather,
    integer_products,
    packed_weights,
    quantization,
    recurrent,
)

__all__ = [
    "attention",
    "contrib",
    "gather",
    "integer_products",
    "packed_weights",
    "quantization",
    "recurrent",
]
