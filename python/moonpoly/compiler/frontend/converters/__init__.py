"""Own converters of ONNX operators, one file for each family.

They stand where TVM's converter takes an operator apart badly, or where it has none.
"""

from moonpoly.compiler.frontend.converters import control_flow, elementwise, indexing
from moonpoly.compiler.frontend.converters.registry import Converted, converts, find_converter

__all__ = [
    "Converted",
    "control_flow",
    "converts",
    "elementwise",
    "find_converter",
    "indexing",
]
