"""Real models: where each file comes from, what goes in, and at which shapes it is checked.

The tests and ``moonpoly bench models`` read the same list.
"""

from . import architectures, published
from .packages import ModelFileError
from .specification import Arrays, Axis, Input, Model, Shape

MODELS: tuple[Model, ...] = (*published.MODELS, *architectures.MODELS)
TIMED: tuple[Model, ...] = tuple(model for model in MODELS if model.timed)

__all__ = [
    "MODELS",
    "TIMED",
    "Arrays",
    "Axis",
    "Input",
    "Model",
    "ModelFileError",
    "Shape",
]
