"""A model's own functions: their nodes take the place of each call."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import onnx
import onnx.inliner

from moonpoly.compiler.frontend.graphs import subgraphs_of
from moonpoly.compiler.frontend.light import without_weights
from moonpoly.compiler.frontend.standard import plain_domain

# Domain, name and overload: what a call and a function have in common.
_Key = tuple[str, str, str]


def inline_functions(proto: onnx.ModelProto) -> None:
    """Put the nodes of a model's own functions, in ``proto`` itself, where they are called.

    The inliner of ONNX forgets what a function's attributes are where a call doesn't say, so each
    call is made to say it.
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
    inlined = onnx.inliner.inline_local_functions(without_weights(proto))
    for field in ("node", "value_info"):
        del getattr(proto.graph, field)[:]
        getattr(proto.graph, field).extend(getattr(inlined.graph, field))
    del proto.opset_import[:], proto.functions[:]
    proto.opset_import.extend(inlined.opset_import)


def _state_defaults(
    nodes: Iterable[onnx.NodeProto], defaults: Mapping[_Key, Iterable[onnx.AttributeProto]]
) -> None:
    for node in nodes:
        given = {attribute.name for attribute in node.attribute}
        key = (plain_domain(node.domain), node.op_type, node.overload)
        node.attribute.extend(each for each in defaults.get(key, ()) if each.name not in given)
        for graph in subgraphs_of(node):
            _state_defaults(graph.node, defaults)
