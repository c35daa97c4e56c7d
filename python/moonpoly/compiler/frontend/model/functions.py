"""A model's own functions: their nodes take the place of each call."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import onnx
import onnx.inliner

from moonpoly.compiler.frontend.model.graphs import all_nodes, subgraphs_of
from moonpoly.compiler.frontend.model.labels import node_label
from moonpoly.compiler.frontend.model.light import without_weights
from moonpoly.compiler.frontend.model.standard import plain_domain
from moonpoly.error import ModelError

# Domain, name and overload: what a call and a function have in common.
_Key = tuple[str, str, str]


def inline_functions(proto: onnx.ModelProto) -> None:
    """Put the nodes of a model's own functions, in ``proto`` itself, where they are called.

    The inliner of ONNX forgets what a function's attributes are where a call doesn't say, so each
    call is made to say it.

    Raises
    ------
    ModelError
        If a call has more operands or results than its function, or a function lacks a result.
    """
    defaults = {
        (plain_domain(function.domain), function.name, function.overload): function.attribute_proto
        for function in proto.functions
        if function.attribute_proto
    }
    if defaults:
        _state_defaults(proto.graph.node, defaults)
        for function in proto.functions:
            _state_defaults(function.node, defaults)
    _check_calls(proto)
    inlined = onnx.inliner.inline_local_functions(without_weights(proto))
    for field in ("node", "value_info"):
        del getattr(proto.graph, field)[:]
        getattr(proto.graph, field).extend(getattr(inlined.graph, field))
    del proto.opset_import[:], proto.functions[:]
    proto.opset_import.extend(inlined.opset_import)


def _check_calls(proto: onnx.ModelProto) -> None:
    """Refuse what the inliner of ONNX would fail at, naming the node or the function."""
    functions = {(plain_domain(f.domain), f.name, f.overload): f for f in proto.functions}
    for function in proto.functions:
        made = {name for node in function.node for name in node.output} | set(function.input)
        for name in function.output:
            if name not in made:
                raise ModelError(
                    f"result {name!r} of the model's function {function.domain}.{function.name} is "
                    f"made by none of its nodes; export the model again"
                )
    bodies = (proto.graph.node, *(function.node for function in proto.functions))
    for node in (node for body in bodies for node in all_nodes(body)):
        function_of = functions.get((plain_domain(node.domain), node.op_type, node.overload))
        if function_of is None:
            continue
        for what, given, taken in (
            ("operands", node.input, function_of.input),
            ("results", node.output, function_of.output),
        ):
            if len(given) > len(taken):
                raise ModelError(
                    f"node {node_label(node)!r} ({node.domain}.{node.op_type}), a call of the "
                    f"model's own function, has {len(given)} {what}, expected {len(taken)} at "
                    f"most; export the model again"
                )


def _state_defaults(
    nodes: Iterable[onnx.NodeProto], defaults: Mapping[_Key, Iterable[onnx.AttributeProto]]
) -> None:
    for node in nodes:
        given = {attribute.name for attribute in node.attribute}
        key = (plain_domain(node.domain), node.op_type, node.overload)
        node.attribute.extend(each for each in defaults.get(key, ()) if each.name not in given)
        for graph in subgraphs_of(node):
            _state_defaults(graph.node, defaults)
