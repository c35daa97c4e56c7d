"""What the checker of ONNX lets pass, and no converter could make sense of."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import onnx

from moonpoly.compiler.frontend.model.graphs import subgraphs_of
from moonpoly.compiler.frontend.model.labels import node_label
from moonpoly.compiler.frontend.model.standard import formal_operand, plain_domain, schema_of
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
        _check_bodies(node)
        for subgraph in subgraphs_of(node):
            check_nodes(subgraph, opsets)


def check_initializers(graph: onnx.GraphProto) -> None:
    """Check that an initialiser that is also an input is of the input's type and shape.

    Raises
    ------
    ModelError
        Naming the tensor and a node that reads it.
    """
    tensors = {tensor.name: tensor for tensor in graph.initializer}
    for info in graph.input:
        tensor = tensors.get(info.name)
        declared = info.type.tensor_type
        if tensor is None or not declared.elem_type:
            continue
        dims = [dim.dim_value or None for dim in declared.shape.dim]
        fits = not declared.HasField("shape") or (
            len(dims) == len(tensor.dims)
            and all(d in (None, -1, size) for d, size in zip(dims, tensor.dims, strict=True))
        )
        if tensor.data_type == declared.elem_type and fits:
            continue
        reader = next((node for node in graph.node if info.name in node.input), None)
        of_node = f" of node {node_label(reader)!r} ({reader.op_type})" if reader else ""
        raise ModelError(
            f"initialiser {info.name!r}{of_node} is {_type_text(tensor.data_type)} "
            f"{list(tensor.dims)}, but the input of that name is declared as "
            f"{_type_text(declared.elem_type)} {['?' if d is None else d for d in dims]}; "
            f"export the model again"
        )


def _type_text(element: int) -> str:
    return onnx.TensorProto.DataType.Name(element).lower()


def _check_bodies(node: onnx.NodeProto) -> None:
    """Check that a node's bodies take and give as many values as it does itself."""
    states = max(len(node.input) - 2, 0)
    for attribute in node.attribute:
        if attribute.type != onnx.AttributeProto.GRAPH or plain_domain(node.domain):
            continue
        inputs, outputs = len(attribute.g.input), len(attribute.g.output)
        takes = {"If": 0, "Loop": 2 + states}.get(node.op_type, inputs)
        gives = len(node.output)
        if node.op_type == "Loop":
            gives = 1 + max(states, gives)
        if inputs != takes or (outputs < gives and node.op_type in ("If", "Loop", "Scan")):
            raise ModelError(
                f"{attribute.name} of node {node_label(node)!r} ({node.op_type}) has {inputs} "
                f"inputs and {outputs} outputs, expected {takes} and {gives}; "
                f"export the model again"
            )


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
