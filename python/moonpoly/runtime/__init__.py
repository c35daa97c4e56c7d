"""Load a compiled model, bind its inputs, run it. Nothing here loads the compiler."""

from moonpoly.runtime.executable import Executable, load, read_metadata
from moonpoly.runtime.fill import Fill, fill_inputs
from moonpoly.runtime.metadata import ModelMetadata, TensorSpec
from moonpoly.runtime.npz import read_npz, write_npz
from moonpoly.runtime.timing import CallTimes, time_calls

__all__ = [
    "CallTimes",
    "Executable",
    "Fill",
    "ModelMetadata",
    "TensorSpec",
    "fill_inputs",
    "load",
    "read_metadata",
    "read_npz",
    "time_calls",
    "write_npz",
]
