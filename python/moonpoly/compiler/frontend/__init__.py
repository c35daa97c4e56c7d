"""ONNX → Relax: read, refuse what can't be had, name dimensions, import."""

from moonpoly.compiler.frontend.dimensions.dims import TensorSpec
from moonpoly.compiler.frontend.importer import ImportedModel, import_model, read_ends
from moonpoly.compiler.frontend.model.load import ModelSource

__all__ = ["ImportedModel", "ModelSource", "TensorSpec", "import_model", "read_ends"]
