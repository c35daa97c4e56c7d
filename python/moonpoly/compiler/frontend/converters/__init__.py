"""Own converters of ONNX operators, one file for each family.

They stand where TVM's converter takes an operator apart badly, or where it has none.
"""

from moonpoly.compiler.frontend.converters import (
    control_flow,
    data_dependent,
    elementwise,
    indexing,
    recurrent,
    sequence,
)
from moonpoly.compiler.frontend.converters.registry import Converted, converts, find_converter

__all__ = [
    "Converted",
    "control_flow",
    "converts",
    "data_dependent",
    "elementwise",
    "find_converter",
    "indexing",
    "recurrent",
    "sequence",
]
