"""What the checker of ONNX lets pass, and no converter could make sense of."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import onnx

from moonpoly.compiler.frontend.graphs import subgraphs_of
from moonpoly.compiler.frontend.labels import node_label
from moonpoly.compiler.frontend.standard import formal_operand, plain_domain, schema_of
from moonpoly.error import ModelError

_OPTIONAL = onnx.defs.OpSchema.FormalParameterOption.Optional
_VARIADIC = onnx.defs.OpSchema.FormalParameterOption.Variadic


def check_nodes(graph: onnx.GraphProto, opsets: Mapping[str, int]) -> None:
    """Check that every node is of a domain that the model imports, and has its operands.

    Parameters
    ----------
    opsets
        Domain → version; the standard domain is "".

    Raises
    ------
    ModelError
        Naming the node, and the domain or the operand that it lacks.
    """
    for node in graph.node:
        domain = plain_domain(node.domain)
        if domain not in opsets:
            makes = ", ".join(repr(name) for name in node.output if name) or "nothing"
            raise ModelError(
                f"node {node_label(node)!r} ({domain}.{node.op_type}), which makes {makes}, is of "
                f"domain {domain!r}, of which the model imports no opset; export the model again"
            )
        for name in _left_out(node, opsets[domain]):
            raise ModelError(
                f"node {node_label(node)!r} ({node.op_type}) leaves out its operand {name!r}; "
                f"export the model again"
            )
        for subgraph in subgraphs_of(node):
            check_nodes(subgraph, opsets)


def _left_out(node: onnx.NodeProto, version: int) -> Iterator[str]:
    """Yield the operands that a node must have and has not."""
    schema = schema_of(node.op_type, version, node.domain)
    if schema is None:
        return
    for index, name in enumerate(node.input):
        formal = formal_operand(schema, index)
        if name or formal is None or formal.option == _OPTIONAL:
            continue
        # Loops and scans may leave out what the standard says of a whole list of operands.
        if formal.option == _VARIADIC and not formal.is_homogeneous:
            continue
        yield formal.name
