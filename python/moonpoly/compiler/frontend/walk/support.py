"""Finding the operators and types of a model that can't be imported, all at once."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import onnx

from moonpoly.compiler.frontend.converters import find_converter
from moonpoly.compiler.frontend.model.graphs import subgraphs_of
from moonpoly.compiler.frontend.model.labels import node_label, operator_label
from moonpoly.compiler.frontend.model.standard import STANDARD_DOMAINS, opsets_of, schema_of
from moonpoly.compiler.frontend.walk.fallback import known_operators
from moonpoly.error import Refusal, UnsupportedError

# What ONNX Runtime promises to run as well. Before it, how operands broadcast was an attribute.
OLDEST_OPSET = 7
# Listed one by one up to here; a model of a foreign domain may have thousands of nodes.
_MAX_LISTED = 20

_NO_TENSORS = {
    "map_type": "a map",
    "optional_type": "optional",
    "sequence_type": "a sequence",
    "sparse_tensor_type": "a sparse tensor",
}
_NO_NUMBERS = frozenset(
    {onnx.TensorProto.STRING, onnx.TensorProto.COMPLEX64, onnx.TensorProto.COMPLEX128}
)


def unknown_operators(proto: onnx.ModelProto) -> list[Refusal]:
    """Return every node, in subgraphs too, whose operator has no importer."""
    opsets = {entry.domain or "ai.onnx": entry.version for entry in proto.opset_import}
    refusals = []
    for node, path in _walk(proto.graph, ""):
        if not is_known(node):
            domain = node.domain or "ai.onnx"
            place = f"node {path!r}, {domain} opset {opsets.get(domain, 'unknown')}"
            refusals.append(Refusal(operator_label(node.op_type, node.domain), path, place))
        elif is_outdated(node, opsets.get("ai.onnx", OLDEST_OPSET)):
            place = f"node {path!r}, opset {opsets['ai.onnx']}"
            reason = f"opset {OLDEST_OPSET} changed it; convert the model by onnx.version_converter"
            refusals.append(Refusal(node.op_type, path, place, reason))
    return refusals


def unsupported(refusals: Sequence[Refusal]) -> UnsupportedError:
    """Return the error that names every node that can't be compiled."""
    lines = [str(each) for each in refusals[:_MAX_LISTED]]
    if len(refusals) > _MAX_LISTED:
        rest = sorted({each.op for each in refusals[_MAX_LISTED:]})
        lines.append(f"and {len(refusals) - _MAX_LISTED} more nodes of {', '.join(rest)}")
    count = f"{len(refusals)} unsupported operator{'s' * (len(refusals) > 1)}"
    return UnsupportedError(f"{count}: {'; '.join(lines)}", refusals)


def check_opset(proto: onnx.ModelProto) -> None:
    """Check that the model is not of a newer standard than what is known of it.

    Raises
    ------
    UnsupportedError
        Naming the model's opset and the newest one.
    """
    version, newest = opsets_of(proto).get("", 0), onnx.defs.onnx_opset_version()
    if version > newest:
        raise UnsupportedError(
            f"the model is of opset {version}; {OLDEST_OPSET} to {newest} are supported: "
            f"install a newer onnx, or export the model for an older opset"
        )


def is_outdated(node: onnx.NodeProto, version: int) -> bool:
    """Return whether an operator of the standard's was changed before the oldest opset in use."""
    if version >= OLDEST_OPSET or node.domain not in STANDARD_DOMAINS:
        return False
    now, then = (schema_of(node.op_type, v, "") for v in (OLDEST_OPSET, version))
    return now is None or then is None or now.since_version != then.since_version


def check_types(graph: onnx.GraphProto) -> None:
    """Check that a graph takes and gives tensors, of types that are compiled.

    Raises
    ------
    UnsupportedError
        Naming each input and output that is of another type.
    """
    constants = {tensor.name for tensor in graph.initializer}
    named = [("input", value) for value in graph.input if value.name not in constants]
    named += [("output", value) for value in graph.output]
    found = [
        f"{role} {value.name!r} is {what}"
        for role, value in named
        if (what := _foreign_type(value.type)) is not None
    ]
    if found:
        raise UnsupportedError(
            f"{'; '.join(found)}; tensors of numbers and bools are supported at a model's ends"
        )


def _foreign_type(ty: onnx.TypeProto) -> str | None:
    """Return what a type is if no model that is compiled can take or give it."""
    kind = ty.WhichOneof("value")
    if kind in _NO_TENSORS:
        return _NO_TENSORS[kind]
    element = ty.tensor_type.elem_type
    if element not in _NO_NUMBERS:
        return None
    return f"a tensor of {onnx.TensorProto.DataType.Name(element).lower()}"


def is_known(node: onnx.NodeProto) -> bool:
    """Return whether a node's operator has an importer."""
    if find_converter(node.domain, node.op_type) is not None:
        return True
    if node.op_type == "Constant":
        return node.domain in STANDARD_DOMAINS
    if node.op_type not in known_operators():
        return False
    if node.domain in STANDARD_DOMAINS:
        return True
    # A foreign operator under a standard name means something else.
    return node.domain == "com.microsoft" and not onnx.defs.has(node.op_type)


def _walk(graph: onnx.GraphProto, prefix: str) -> Iterator[tuple[onnx.NodeProto, str]]:
    for node in graph.node:
        path = prefix + node_label(node)
        yield node, path
        for subgraph in subgraphs_of(node):
            yield from _walk(subgraph, f"{path}/")
