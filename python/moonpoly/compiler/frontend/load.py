"""Reading an ONNX model from a path, bytes or a proto, and refusing what is not one."""

from __future__ import annotations

import hashlib
import math
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

import onnx
from google.protobuf.message import DecodeError

from moonpoly.compiler.frontend.node_check import check_nodes
from moonpoly.compiler.frontend.order import sort_nodes
from moonpoly.compiler.frontend.standard import STANDARD_DOMAINS, opsets_of
from moonpoly.error import ModelError, StorageError

# What `compile` takes: a file, its content, or a parsed model.
ModelSource: TypeAlias = "str | Path | bytes | onnx.ModelProto"


# Less than protobuf's 2 GB by what a graph takes besides its weights.
_MAX_MESSAGE_BYTES = (1 << 31) - (64 << 20)
_ONNXRUNTIME = "com.microsoft"
# The standard has no such operators, which the checker would say.
_WRITTEN_AS_STANDARD = frozenset({"SimplifiedLayerNormalization"})


@dataclass(frozen=True)
class LoadedModel:
    """A valid ONNX model with its weights in memory.

    Parameters
    ----------
    proto
        The model; local functions are inlined.
    name
        How messages call it: the file's stem, or the graph's name.
    digest
        SHA-256 of the model's content, weights included.
    """

    proto: onnx.ModelProto
    name: str
    digest: str


def load_model(source: ModelSource) -> LoadedModel:
    """Read and check a model.

    Raises
    ------
    ModelError
        If it is not ONNX, is truncated, lacks its external weights, or its graph is invalid.
    StorageError
        If the file can't be read.
    """
    if isinstance(source, onnx.ModelProto):
        proto, label = _copy(source), "the given model"
        name = proto.graph.name or "model"
    elif isinstance(source, bytes):
        proto, label = _parse(source, "the given bytes"), "the given bytes"
        name = proto.graph.name or "model"
    else:
        path = Path(source)
        proto, label, name = _read(path), str(path), path.stem
    _name_domains(proto)
    _check_content(proto, label)
    digest = _digest(proto)
    if proto.functions:
        proto = onnx.inliner.inline_local_functions(proto)
    return LoadedModel(proto=proto, name=name, digest=digest)


def _copy(model: onnx.ModelProto) -> onnx.ModelProto:
    copy = onnx.ModelProto()
    copy.CopyFrom(model)
    return copy


def _read(path: Path) -> onnx.ModelProto:
    try:
        data = path.read_bytes()
    except OSError as err:
        raise StorageError(
            f"can't read model {path}: {err.strerror or err}; give the path of an .onnx file"
        ) from err
    proto = _parse(data, str(path))
    try:
        onnx.load_external_data_for_model(proto, str(path.parent))
    except (OSError, onnx.checker.ValidationError, ValueError) as err:
        raise ModelError(
            f"{path} keeps weights in other files, which can't be read: {_one_line(err)}; "
            f"put them beside the model"
        ) from err
    return proto


def _parse(data: bytes, label: str) -> onnx.ModelProto:
    try:
        proto = onnx.load_model_from_string(data)
    except DecodeError as err:
        raise ModelError(
            f"{label} is not an ONNX model, or is truncated ({len(data)} bytes read); "
            f"export the model again"
        ) from err
    return proto


def _name_domains(proto: onnx.ModelProto) -> None:
    """Give operators that ONNX Runtime writes into the standard's domain its own domain's name."""
    foreign = [
        node
        for node in proto.graph.node
        if node.op_type in _WRITTEN_AS_STANDARD and node.domain in STANDARD_DOMAINS
    ]
    for node in foreign:
        node.domain = _ONNXRUNTIME
    if foreign and all(entry.domain != _ONNXRUNTIME for entry in proto.opset_import):
        proto.opset_import.append(onnx.helper.make_opsetid(_ONNXRUNTIME, 1))


def _check_content(proto: onnx.ModelProto, label: str) -> None:
    # Protobuf reads an empty file, and many a foreign one, as a message without fields.
    if proto.ir_version < 3 or not proto.opset_import or not proto.graph.output:
        raise ModelError(
            f"{label} is not an ONNX model: expected an IR version ≥ 3, an opset and graph "
            f"outputs, got IR version {proto.ir_version}, {len(proto.opset_import)} opsets, "
            f"{len(proto.graph.output)} outputs"
        )
    sort_nodes(proto.graph)
    check_nodes(proto.graph, opsets_of(proto))
    # The checker wants the shape of an output stated; the operator that makes it tells it as well.
    unstated = [
        value.type.tensor_type
        for value in proto.graph.output
        if value.type.HasField("tensor_type") and not value.type.tensor_type.HasField("shape")
    ]
    for tensor_type in unstated:
        tensor_type.shape.SetInParent()
    try:
        onnx.checker.check_model(proto if _fits_message(proto) else _without_weights(proto))
    except onnx.checker.ValidationError as err:
        raise ModelError(
            f"{label} is not a valid ONNX graph: {_one_line(err)}; export the model again"
        ) from err
    finally:
        for tensor_type in unstated:
            tensor_type.ClearField("shape")


def _fits_message(proto: onnx.ModelProto) -> bool:
    """Return whether the checker, which reads the serialised model, can be given it whole."""
    # No element takes more than 16 bytes; the message itself can't say how large it is above 2 GB.
    elements = sum(math.prod(tensor.dims) for tensor in proto.graph.initializer)
    if 16 * elements < _MAX_MESSAGE_BYTES:
        return True
    return sum(len(tensor.raw_data) for tensor in proto.graph.initializer) < _MAX_MESSAGE_BYTES


def _without_weights(proto: onnx.ModelProto) -> onnx.ModelProto:
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


def _digest(proto: onnx.ModelProto) -> str:
    """Hash the graph and its weights one by one, so that models above 2 GB have a digest too."""
    sha = hashlib.sha256()
    for tensor in proto.graph.initializer:
        sha.update(f"{tensor.name} {tensor.data_type} {list(tensor.dims)}\n".encode())
        sha.update(tensor.raw_data or tensor.SerializeToString(deterministic=True))
    for part in (
        *proto.graph.node,
        *proto.graph.input,
        *proto.graph.output,
        *proto.graph.sparse_initializer,
        *proto.functions,
        *proto.opset_import,
    ):
        text = part.SerializeToString(deterministic=True)
        sha.update(len(text).to_bytes(8, "little") + text)
    return sha.hexdigest()


def _one_line(err: Exception) -> str:
    lines = [line.strip() for line in str(err).splitlines() if line.strip()]
    return lines[0].rstrip(".") if lines else type(err).__name__
