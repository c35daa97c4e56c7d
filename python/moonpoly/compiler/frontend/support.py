"""Finding every operator of a model that can't be imported, all at once."""

from __future__ import annotations

from collections.abc import Iterator

import onnx
from tvm.relax.frontend.onnx import onnx_frontend

from moonpoly.error import UnsupportedError

_STANDARD_DOMAINS = ("", "ai.onnx")
# Operators that the importer handles by itself, outside its table.
_BUILT_IN = frozenset({"Constant", "If"})
# Listed one by one up to here; a model of a foreign domain may have thousands of nodes.
_MAX_LISTED = 20


def check_supported(proto: onnx.ModelProto) -> None:
    """Check that every node, in subgraphs too, has an importer.

    Raises
    ------
    UnsupportedError
        Naming each operator that has none, with its node and opset.
    """
    opsets = {entry.domain or "ai.onnx": entry.version for entry in proto.opset_import}
    known = onnx_frontend._get_convert_map().keys() | _BUILT_IN
    missing = [
        (node, path)
        for node, path in _walk(proto.graph, "")
        if node.op_type not in known or not _domain_is_known(node)
    ]
    if not missing:
        return
    lines = []
    for node, path in missing[:_MAX_LISTED]:
        domain = node.domain or "ai.onnx"
        lines.append(
            f"{_qualified(node)} (node {path!r}, {domain} opset {opsets.get(domain, 'unknown')})"
        )
    if len(missing) > _MAX_LISTED:
        rest = sorted({_qualified(node) for node, _ in missing[_MAX_LISTED:]})
        lines.append(f"and {len(missing) - _MAX_LISTED} more nodes of {', '.join(rest)}")
    raise UnsupportedError(
        f"{len(missing)} unsupported operator{'s' * (len(missing) > 1)}: {'; '.join(lines)}"
    )


def node_label(node: onnx.NodeProto) -> str:
    """Return the node's name, or that of its first output where it has none."""
    return node.name or next((name for name in node.output if name), node.op_type)


def _domain_is_known(node: onnx.NodeProto) -> bool:
    if node.domain in _STANDARD_DOMAINS:
        return True
    # A foreign operator under a standard name means something else.
    return node.domain == "com.microsoft" and not onnx.defs.has(node.op_type)


def _qualified(node: onnx.NodeProto) -> str:
    return node.op_type if node.domain in _STANDARD_DOMAINS else f"{node.domain}.{node.op_type}"


def _walk(graph: onnx.GraphProto, prefix: str) -> Iterator[tuple[onnx.NodeProto, str]]:
    for node in graph.node:
        path = prefix + node_label(node)
        yield node, path
        for attribute in node.attribute:
            for subgraph in [attribute.g, *attribute.graphs]:
                yield from _walk(subgraph, f"{path}/")
