"""Going through the graphs of an ONNX model."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import onnx


def subgraphs_of(node: onnx.NodeProto) -> Iterator[onnx.GraphProto]:
    """Yield the graphs that a node has as attributes, themselves and not copies."""
    for attribute in node.attribute:
        # To change a field that isn't set would set it.
        if attribute.HasField("g"):
            yield attribute.g
        yield from attribute.graphs


def all_nodes(nodes: Iterable[onnx.NodeProto]) -> Iterator[onnx.NodeProto]:
    """Yield nodes and those of their subgraphs, themselves and not copies."""
    for node in nodes:
        yield node
        for graph in subgraphs_of(node):
            yield from all_nodes(graph.node)
