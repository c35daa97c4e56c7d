"""Own converters of ONNX operators, one file for each family.

They stand where TVM's converter takes an operator apart badly, or where it has none.
"""

from moonpoly.compiler.frontend.converters import (
    attention,
    contrib_activation,
    contrib_attention,
    contrib_matmul,
    contrib_normalization,
    contrib_quantized,
    control_flow,
    data_dependent,
    definitions,
    elementwise,
    grouped_attention,
    indexing,
    integer_products,
    quantization,
    recurrent,
    reduction,
    resize,
    rotary,
    sequence,
    shape,
    slicing,
)
from moonpoly.compiler.frontend.converters.registry import Converted, converts, find_converter

__all__ = [
    "Converted",
    "attention",
    "contrib_activation",
    "contrib_attention",
    "contrib_matmul",
    "contrib_normalization",
    "contrib_quantized",
    "control_flow",
    "converts",
    "data_dependent",
    "definitions",
    "elementwise",
    "find_converter",
    "grouped_attention",
    "indexing",
    "integer_products",
    "quantization",
    "recurrent",
    "reduction",
    "resize",
    "rotary",
    "sequence",
    "shape",
    "slicing",
]
