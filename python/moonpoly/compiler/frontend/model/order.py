"""The order of a graph's nodes: every tensor is made before it is read."""

from __future__ import annotations

from collections.abc import Iterator

import onnx

from moonpoly.compiler.frontend.model.graphs import subgraphs_of
from moonpoly.compiler.frontend.model.labels import node_label
from moonpoly.error import ModelError


def sort_nodes(graph: onnx.GraphProto, outer: frozenset[str] = frozenset()) -> None:
    """Put the nodes of a graph, and of its subgraphs, in an order in which they can be run.

    Nodes that are in order already are left as they are.

    Parameters
    ----------
    outer
        Tensors of the graphs around this one.

    Raises
    ------
    ModelError
        If a node reads what nothing makes, or what depends on the node's own results.
    """
    known = set(outer)
    known.update(value.name for value in graph.input)
    known.update(tensor.name for tensor in graph.initializer)
    known.update(tensor.values.name for tensor in graph.sparse_initializer)
    makers = {name: node_label(node) for node in graph.node for name in node.output if name}
    waiting = list(graph.node)
    in_order: list[onnx.NodeProto] = []
    while waiting:
        later = []
        for node in waiting:
            missing = next((name for name in _reads(node) if name not in known), None)
            if missing is None:
                known.update(node.output)
                in_order.append(node)
            elif missing not in makers:
                raise ModelError(
                    f"node {node_label(node)!r} ({node.op_type}) reads {missing!r}, which no node, "
                    f"input or initialiser makes; export the model again"
                )
            else:
                later.append(node)
        if len(later) == len(waiting):
            raise _cycle(later, known, makers)
        waiting = later
    for value in graph.output:
        if value.name not in known:
            raise ModelError(f"output {value.name!r} is made by no node; export the model again")
    if any(a is not b for a, b in zip(in_order, graph.node, strict=True)):
        copies = [onnx.NodeProto() for _ in in_order]
        for copy, node in zip(copies, in_order, strict=True):
            copy.CopyFrom(node)
        del graph.node[:]
        graph.node.extend(copies)
    inside = frozenset(known)
    for node in graph.node:
        for subgraph in subgraphs_of(node):
            sort_nodes(subgraph, inside)


def _cycle(nodes: list[onnx.NodeProto], known: set[str], makers: dict[str, str]) -> ModelError:
    by_output = {name: node for node in nodes for name in node.output if name}
    node, path = nodes[0], []
    while node_label(node) not in path:
        path.append(node_label(node))
        missing = next(name for name in _reads(node) if name not in known)
        node = by_output[missing]
    first = node_label(node)
    circle = " → ".join([*path[path.index(first) :], first])
    tensor = next(name for name in _reads(node) if name not in known)
    return ModelError(
        f"the graph is cyclic: node {first!r} reads {tensor!r}, which depends on its own result "
        f"(each reads from the next: {circle}); export the model again"
    )


def _reads(node: onnx.NodeProto) -> Iterator[str]:
    """Yield the names that a node reads from its own graph or from those around it."""
    yield from (name for name in node.input if name)
    for graph in subgraphs_of(node):
        own = {value.name for value in graph.input}
        own.update(tensor.name for tensor in graph.initializer)
        own.update(name for inner in graph.node for name in inner.output)
        for inner in graph.node:
            yield from (name for name in _reads(inner) if name not in own)
        yield from (value.name for value in graph.output if value.name not in own)
