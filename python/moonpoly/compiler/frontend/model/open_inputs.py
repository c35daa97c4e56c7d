"""Initialisers that a run may give another value: inputs with a value of their own."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import onnx

from moonpoly.error import InputError


def overridable(graph: onnx.GraphProto) -> list[str]:
    """Return the initialisers that a graph lists as inputs as well."""
    inputs = {value.name for value in graph.input}
    return [tensor.name for tensor in graph.initializer if tensor.name in inputs]


def open_initialisers(graph: onnx.GraphProto, names: Sequence[str]) -> dict[str, np.ndarray]:
    """Make plain inputs, in ``graph`` itself, of initialisers that it lists as inputs.

    Returns
    -------
    defaults
        Their values by name.

    Raises
    ------
    InputError
        If a name is not of such an initialiser.
    """
    known = overridable(graph)
    for name in names:
        if name not in known:
            listed = ", ".join(map(repr, known)) or "none"
            raise InputError(
                f"no initialiser {name!r} is listed as an input of the model; these are: {listed}"
            )
    defaults = {}
    for index in reversed(range(len(graph.initializer))):
        tensor = graph.initializer[index]
        if tensor.name in names:
            defaults[tensor.name] = onnx.numpy_helper.to_array(tensor)
            value = next(value for value in graph.input if value.name == tensor.name)
            # The value has the sizes, whatever the input says of them.
            value.CopyFrom(
                onnx.helper.make_tensor_value_info(tensor.name, tensor.data_type, list(tensor.dims))
            )
            del graph.initializer[index]
    return defaults
