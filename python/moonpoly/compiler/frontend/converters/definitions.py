"""Operators that the standard defines by other operators: imported as those."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import onnx
import onnx.inliner

from moonpoly.compiler.frontend.converters.registry import converts
from moonpoly.compiler.frontend.graph.context import Context
from moonpoly.compiler.frontend.node.values import Value


@converts(
    *(
        "BlackmanWindow",
        "CausalConvWithState",
        "Celu",
        "CenterCropPad",
        "GroupNormalization",
    ),
    *("HammingWindow", "HannWindow", "LinearAttention", "NegativeLogLikelihoodLoss"),
    *("SoftmaxCrossEntropyLoss", "SwiGLU"),
)
@converts("FlexAttention", domain="ai.onnx.preview")
def by_definition(ctx: Context) -> Sequence[Value]:
    """Import the nodes that the standard says the operator stands for."""
    given = {name: value for name, value in zip(_names(ctx), ctx.values, strict=True) if value}
    return ctx.walk.subgraph(_definition(ctx), given, ctx.name)


def _names(ctx: Context) -> list[str]:
    """Return a name for each operand; two operands may be one value of the graph."""
    return [f"operand{index}" if value else "" for index, value in enumerate(ctx.values)]


def _definition(ctx: Context) -> onnx.GraphProto:
    node = onnx.NodeProto()
    node.CopyFrom(ctx.node)
    del node.input[:]
    node.input.extend(_names(ctx))
    schema = onnx.defs.get_schema(ctx.op, ctx.opset, ctx.domain)
    for name, attribute in schema.attributes.items():
        if name not in ctx.attrs and attribute.default_value.name:
            node.attribute.append(attribute.default_value)
    inputs = [
        onnx.helper.make_tensor_value_info(name, _element_type(ctx, index), _sizes(ctx, index))
        for index, name in enumerate(node.input)
        if name
    ]
    outputs = [onnx.ValueInfoProto(name=name) for name in node.output if name]
    model = onnx.helper.make_model(
        onnx.helper.make_graph([node], "definition", inputs, outputs),
        opset_imports=[onnx.helper.make_opsetid(ctx.domain, ctx.opset)],
    )
    try:
        if "" in node.input:
            # The inliner wants a type for every operand, given or not.
            model.functions.append(_function(ctx, node, inputs))
            model = onnx.inliner.inline_local_functions(model)
        else:
            model = onnx.inliner.inline_selected_functions(
                model, [(ctx.domain, ctx.op)], inline_schema_functions=True
            )
    except RuntimeError as err:
        ctx.unsupported(f"its definition can't be expanded: {' '.join(str(err).split())}")
    if any(each.op_type == ctx.op and each.domain == ctx.domain for each in model.graph.node):
        ctx.unsupported("the standard defines it by other operators from a later opset on only")
    return model.graph


def _function(
    ctx: Context, node: onnx.NodeProto, inputs: Sequence[onnx.ValueInfoProto]
) -> onnx.FunctionProto:
    """Return the standard's definition of the operator for a node with operands left out."""
    schema = onnx.defs.get_schema(ctx.op, ctx.opset, ctx.domain)
    types = {value.name: value.type for value in inputs}
    given = [types.get(name, onnx.TypeProto()).SerializeToString() for name in node.input]
    versions = [v for v in schema.context_dependent_function_opset_versions if v <= ctx.opset]
    if not versions:
        ctx.unsupported("the standard doesn't define it by other operators with these operands")
    content = schema.get_context_dependent_function_with_opset_version(
        max(versions), node.SerializeToString(), given
    )
    function = onnx.FunctionProto.FromString(content)
    function.domain = ctx.domain
    _raise_opset(ctx, function)
    return function


def _raise_opset(ctx: Context, function: onnx.FunctionProto) -> None:
    """Let a definition stand for this model's opset, if its operators mean the same there."""
    for entry in function.opset_import:
        for node in function.node:
            if node.domain == entry.domain and (
                onnx.defs.get_schema(node.op_type, entry.version, entry.domain).since_version
                != onnx.defs.get_schema(node.op_type, ctx.opset, entry.domain).since_version
            ):
                ctx.unsupported(f"{node.op_type} in its definition has changed since")
        entry.version = ctx.opset


def _element_type(ctx: Context, index: int) -> int:
    return onnx.helper.np_dtype_to_tensor_dtype(np.dtype(ctx.dtype(index)))


def _sizes(ctx: Context, index: int) -> list[int | str] | None:
    shape = ctx.shape(index)
    if shape is None:
        rank = ctx.rank(index)
        return None if rank is None else [f"operand{index}_{axis}" for axis in range(rank)]
    return [
        dim if isinstance(dim, int) else f"operand{index}_{axis}" for axis, dim in enumerate(shape)
    ]
