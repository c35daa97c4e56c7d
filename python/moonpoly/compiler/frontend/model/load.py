"""Reading an ONNX model from a path, bytes or a proto, and refusing what is not one."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

import onnx
from google.protobuf.message import DecodeError
from onnx import external_data_helper as external_data

from moonpoly.compiler.frontend.model.functions import inline_functions
from moonpoly.compiler.frontend.model.graphs import all_nodes
from moonpoly.compiler.frontend.model.labels import node_label
from moonpoly.compiler.frontend.model.light import fits_message, without_weights
from moonpoly.compiler.frontend.model.node_check import check_initializers, check_nodes
from moonpoly.compiler.frontend.model.order import sort_nodes
from moonpoly.compiler.frontend.model.sparse import fill_sparse
from moonpoly.compiler.frontend.model.standard import STANDARD_DOMAINS, opsets_of, plain_domain
from moonpoly.error import ModelError, StorageError

# What `compile` takes: a file, its content, or a parsed model.
ModelSource: TypeAlias = "str | Path | bytes | onnx.ModelProto"


# What reading a tensor from another file raises.
_FILE_ERRORS = (OSError, onnx.checker.ValidationError, ValueError)
_ONNXRUNTIME = "com.microsoft"
# The standard has no such operators, which the checker would say.
_WRITTEN_AS_STANDARD = frozenset({"SimplifiedLayerNormalization"})


@dataclass(frozen=True)
class LoadedModel:
    """A valid ONNX model with its weights in memory.

    Parameters
    ----------
    proto
        The model; local functions are inlined, sparse weights are dense.
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
    _name_standard(proto)
    _name_domains(proto)
    _check_content(proto, label)
    digest = _digest(proto)
    if proto.functions:
        inline_functions(proto)
    fill_sparse(proto.graph)
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
    for tensor in proto.graph.initializer:
        if external_data.uses_external_data(tensor):
            try:
                external_data.load_external_data_for_tensor(tensor, str(path.parent))
            except _FILE_ERRORS as err:
                readers = (node for node in proto.graph.node if tensor.name in node.input)
                reader = next((f" of node {node_label(n)!r} ({n.op_type})" for n in readers), "")
                raise ModelError(
                    f"{path} keeps tensor {tensor.name!r}{reader} in another file, which can't be "
                    f"read: {_one_line(err)}; put the whole file beside the model"
                ) from err
            tensor.data_location = onnx.TensorProto.DEFAULT
            del tensor.external_data[:]
    try:
        # The tensors that are attributes.
        onnx.load_external_data_for_model(proto, str(path.parent))
    except _FILE_ERRORS as err:
        raise ModelError(
            f"{path} keeps tensors in other files, which can't be read: {_one_line(err)}; "
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


def _name_standard(proto: onnx.ModelProto) -> None:
    """Write the standard's domain as the checker of ONNX knows it, which is by no name."""
    for entry in (*proto.opset_import, *(each for f in proto.functions for each in f.opset_import)):
        entry.domain = plain_domain(entry.domain)
    for body in (proto.graph.node, *(function.node for function in proto.functions)):
        for node in all_nodes(body):
            node.domain = plain_domain(node.domain)


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
    check_initializers(proto.graph)
    # The checker wants the shape of an output stated; the operator that makes it tells it as well.
    unstated = [
        value.type.tensor_type
        for value in proto.graph.output
        if value.type.HasField("tensor_type") and not value.type.tensor_type.HasField("shape")
    ]
    for tensor_type in unstated:
        tensor_type.shape.SetInParent()
    try:
        onnx.checker.check_model(proto if fits_message(proto) else without_weights(proto))
    except onnx.checker.ValidationError as err:
        raise ModelError(
            f"{label} is not a valid ONNX graph: {_one_line(err)}; export the model again"
        ) from err
    finally:
        for tensor_type in unstated:
            tensor_type.ClearField("shape")


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
