"""Load a compiled model, bind its inputs, run it. Nothing here loads the compiler."""

from moonpoly.runtime.executable import Executable, load
from moonpoly.runtime.metadata import ModelMetadata, TensorSpec

__all__ = ["Executable", "ModelMetadata", "TensorSpec", "load"]
