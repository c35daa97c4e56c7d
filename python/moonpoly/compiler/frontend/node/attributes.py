"""A node's attributes, as own converters take them and as TVM's do."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import onnx
from onnx import AttributeProto


def parse_attributes(node: onnx.NodeProto) -> dict[str, Any]:
    """Return numbers, strings, lists, NumPy arrays and graphs by name."""
    return {attribute.name: _parse(attribute) for attribute in node.attribute}


def _parse(attribute: AttributeProto) -> Any:
    value = onnx.helper.get_attribute_value(attribute)
    if attribute.type == AttributeProto.STRING:
        return value.decode("utf-8", errors="replace")
    if attribute.type == AttributeProto.STRINGS:
        return [text.decode("utf-8", errors="replace") for text in value]
    if attribute.type == AttributeProto.TENSOR:
        return onnx.numpy_helper.to_array(value)
    if attribute.type in (AttributeProto.INTS, AttributeProto.FLOATS, AttributeProto.GRAPHS):
        return list(value)
    return value


def tvm_attributes(node: onnx.NodeProto, name: str, num_outputs: int) -> dict[str, Any]:
    """Return the attributes in the form that TVM's converters take."""
    attributes: dict[str, Any] = {}
    for attribute in node.attribute:
        value = onnx.helper.get_attribute_value(attribute)
        is_list = attribute.type >= AttributeProto.FLOATS
        attributes[attribute.name] = tuple(value) if is_list else value
    attributes["tvm_custom"] = {"name": name, "num_outputs": num_outputs}
    return attributes


def replace_attributes(node: onnx.NodeProto, changes: Mapping[str, Any]) -> onnx.NodeProto:
    """Return a copy of a node with attributes set, or taken away where the value is None."""
    copy = onnx.NodeProto()
    copy.CopyFrom(node)
    kept = [attribute for attribute in node.attribute if attribute.name not in changes]
    del copy.attribute[:]
    copy.attribute.extend(kept)
    copy.attribute.extend(
        onnx.helper.make_attribute(name, value)
        for name, value in changes.items()
        if value is not None
    )
    return copy
