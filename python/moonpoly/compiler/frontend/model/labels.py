"""What messages and bindings call a node."""

from __future__ import annotations

import onnx

from moonpoly.compiler.frontend.model.standard import STANDARD_DOMAINS

# Names a function's result, whose node has named a binding before it.
RESULT_SUFFIX = ":result"


def node_label(node: onnx.NodeProto) -> str:
    """Return the node's name, or that of its first output where it has none."""
    return node.name or next((name for name in node.output if name), node.op_type)


def operator_label(op: str, domain: str) -> str:
    """Return an operator's name, after its domain where that is not the standard's."""
    return op if domain in STANDARD_DOMAINS else f"{domain}.{op}"
