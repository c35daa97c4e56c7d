"""Small changes that make a valid ONNX model wrong, or at least odd."""

from __future__ import annotations

import random
from collections.abc import Callable

import onnx
from onnx import AttributeProto, helper

Change = Callable[[onnx.GraphProto, random.Random], None]


def _node(graph: onnx.GraphProto, choose: random.Random) -> onnx.NodeProto:
    return choose.choice(graph.node)


def _dangling_edge(graph, choose):
    node = _node(graph, choose)
    node.input[choose.randrange(len(node.input))] = "nowhere"


def _operand_left_out(graph, choose):
    node = _node(graph, choose)
    node.input[choose.randrange(len(node.input))] = ""


def _fewer_operands(graph, choose):
    del _node(graph, choose).input[-1]


def _more_operands(graph, choose):
    _node(graph, choose).input.append(graph.input[0].name)


def _results_of_no_operator(graph, choose):
    _node(graph, choose).output.append("more")


def _node_twice(graph, choose):
    graph.node.add().CopyFrom(_node(graph, choose))


def _inputs_of_one_name(graph, choose):
    graph.input[-1].name = graph.input[0].name


def _other_operator(graph, choose):
    names = ["Add", "Concat", "Gather", "Conv", "Slice", "Resize", "TopK", "Cast"]
    _node(graph, choose).op_type = choose.choice(names)


def _other_rank(graph, choose):
    dims = choose.choice(graph.input).type.tensor_type.shape.dim
    if choose.random() < 0.5 and dims:
        del dims[-1]
    else:
        dims.add().dim_value = 2


def _other_size(graph, choose):
    dims = choose.choice(graph.input).type.tensor_type.shape.dim
    if dims:
        choose.choice(dims).dim_value = choose.choice([0, 1, 3, 7])


def _other_type(graph, choose):
    kinds = [1, 2, 6, 7, 8, 9, 10, 11, 16, 22]
    choose.choice(graph.input).type.tensor_type.elem_type = choose.choice(kinds)


def _other_attribute(graph, choose):
    """Replace an attribute by one of another kind, or put a number out of range in it."""
    node = _node(graph, choose)
    if not node.attribute:
        return
    attribute = choose.choice(node.attribute)
    if attribute.type == AttributeProto.INT and choose.random() < 0.5:
        attribute.i = choose.choice([-7, -1, 0, 99, 2**40])
    elif attribute.type == AttributeProto.INTS and choose.random() < 0.5:
        attribute.ints[-1:] = choose.choice([[], [-3], [0], [1, 1, 1]])
    else:
        name = attribute.name
        node.attribute.remove(attribute)
        node.attribute.append(
            helper.make_attribute(name, choose.choice([1.5, "text", [1, 2], [0.5], 3]))
        )


def _no_attribute(graph, choose):
    node = _node(graph, choose)
    if node.attribute:
        del node.attribute[0]


CHANGES: dict[str, Change] = {
    change.__name__.removeprefix("_"): change
    for change in (
        *(_dangling_edge, _operand_left_out, _fewer_operands, _more_operands, _node_twice),
        *(_results_of_no_operator, _inputs_of_one_name, _other_operator, _other_rank),
        *(_other_size, _other_type, _other_attribute, _no_attribute),
    )
}
