"""Going through the graphs of an ONNX model."""

from __future__ import annotations

from collections.abc import Iterator

import onnx


def subgraphs_of(node: onnx.NodeProto) -> Iterator[onnx.GraphProto]:
    """Yield the graphs that a node has as attributes, themselves and not copies."""
    for attribute in node.attribute:
        # To change a field that isn't set would set it.
        if attribute.HasField("g"):
            yield attribute.g
        yield from attribute.graphs
