"""Models without their weights, for tools of ONNX that read a serialised model of 2 GB at most."""

from __future__ import annotations

import math

import onnx

# Less than protobuf's 2 GB by what a graph takes besides its weights.
_MAX_MESSAGE_BYTES = (1 << 31) - (64 << 20)


def fits_message(proto: onnx.ModelProto) -> bool:
    """Return whether the checker, which reads the serialised model, can be given it whole."""
    # No element takes more than 16 bytes; the message itself can't say how large it is above 2 GB.
    elements = sum(math.prod(tensor.dims) for tensor in proto.graph.initializer)
    if 16 * elements < _MAX_MESSAGE_BYTES:
        return True
    return sum(len(tensor.raw_data) for tensor in proto.graph.initializer) < _MAX_MESSAGE_BYTES


def without_weights(proto: onnx.ModelProto) -> onnx.ModelProto:
    """Return a model whose weights are inputs."""
    light = onnx.ModelProto(ir_version=proto.ir_version)
    light.opset_import.extend(proto.opset_import)
    light.functions.extend(proto.functions)
    graph = light.graph
    graph.name = proto.graph.name
    for field in ("node", "input", "output", "value_info", "sparse_initializer"):
        getattr(graph, field).extend(getattr(proto.graph, field))
    known = {value.name for value in graph.input}
    for tensor in proto.graph.initializer:
        if tensor.name not in known:
            shape = list(tensor.dims)
            value = onnx.helper.make_tensor_value_info(tensor.name, tensor.data_type, shape)
            graph.input.append(value)
    return light
