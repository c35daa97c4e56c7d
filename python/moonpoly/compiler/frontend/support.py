"""Finding every operator of a model that can't be imported, all at once."""

from __future__ import annotations

from collections.abc import Iterator

import onnx

from moonpoly.compiler.frontend.converters import find_converter
from moonpoly.compiler.frontend.converters.registry import STANDARD_DOMAINS
from moonpoly.compiler.frontend.fallback import known_operators
from moonpoly.compiler.frontend.labels import node_label
from moonpoly.error import UnsupportedError

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
    missing = [(node, path) for node, path in _walk(proto.graph, "") if not _is_known(node)]
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


def _is_known(node: onnx.NodeProto) -> bool:
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


def _qualified(node: onnx.NodeProto) -> str:
    return node.op_type if node.domain in STANDARD_DOMAINS else f"{node.domain}.{node.op_type}"


def _walk(graph: onnx.GraphProto, prefix: str) -> Iterator[tuple[onnx.NodeProto, str]]:
    for node in graph.node:
        path = prefix + node_label(node)
        yield node, path
        for attribute in node.attribute:
            for subgraph in [attribute.g, *attribute.graphs]:
                yield from _walk(subgraph, f"{path}/")
