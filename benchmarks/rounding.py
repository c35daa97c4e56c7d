"""What the last bit of floats makes of a model of 8-bit integers.

A float between two integers is quantised to one or the other by its last bit, which another order
of the same sum changes; from there on the model computes with another integer. How sensitive a
model is to that is seen by running it with the last bits taken at random.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import onnx
from onnx import helper

# Operators of floats whose result depends, in its last bits, on the order of a sum or on how a
# function is approximated. What all others do to floats (a sum or product of two, a quotient, a
# conversion, a move) is one rounding or none, and the same bits everywhere.
_OPEN = frozenset(
    {
        *("Attention", "AveragePool", "BatchNormalization", "BiasGelu", "Conv", "ConvTranspose"),
        *("Cos", "DynamicQuantizeLSTM", "DynamicQuantizeMatMul", "Einsum", "Elu", "Erf", "Exp"),
        *("FastGelu", "FusedMatMul", "GRU", "Gelu", "Gemm", "GlobalAveragePool", "HardSwish"),
        *("GroupNormalization", "InstanceNormalization", "LSTM", "LayerNormalization", "Log"),
        *("LogSoftmax", "LpNormalization", "MatMul", "MatMulIntegerToFloat", "MatMulNBits"),
        *("Mish", "MultiHeadAttention", "Pow", "QuickGelu", "RMSNormalization", "RNN"),
        *("ReduceL2", "ReduceLogSumExp", "ReduceMean", "ReduceSum", "ReduceSumSquare", "Resize"),
        *("Selu", "Sigmoid", "SimplifiedLayerNormalization", "Sin", "SkipLayerNormalization"),
        *("SkipSimplifiedLayerNormalization", "Softmax", "Softplus", "Tanh"),
    }
)
_INTEGERS = (onnx.TensorProto.INT32, onnx.TensorProto.INT64)
# The distance of two float32 above 1.
_LAST_BIT = 2.0**-23


def shake(source: Path, target: Path) -> int:
    """Write `source` with the last bit of every float that is open to it taken at random.

    The first result of each operator that doesn't say to the bit what it computes is multiplied by
    a random number of 1 ± 2⁻²³, another one in each run. Results that are integers stay.

    Returns
    -------
    int
        How many operators are shaken.
    """
    model = onnx.load(source)
    typed = onnx.shape_inference.infer_shapes(model)
    # A sum or power of integers is exact.
    integers = {
        info.name
        for graph in _graphs(typed.graph)
        for info in (*graph.value_info, *graph.output)
        if info.type.tensor_type.elem_type in _INTEGERS
    }
    count = 0
    for graph in list(_graphs(model.graph)):
        count = _shake_graph(graph, integers, count)
    onnx.save(model, target)
    return count


def _graphs(graph: onnx.GraphProto) -> Iterator[onnx.GraphProto]:
    yield graph
    for node in graph.node:
        for attribute in node.attribute:
            inner = [attribute.g] if attribute.HasField("g") else []
            for each in (*inner, *attribute.graphs):
                yield from _graphs(each)


def _shake_graph(graph: onnx.GraphProto, integers: set[str], count: int) -> int:
    nodes: list[onnx.NodeProto] = []
    for node in graph.node:
        copy = onnx.NodeProto()
        copy.CopyFrom(node)
        nodes.append(copy)
        result = copy.output[0]
        if copy.op_type in _OPEN and result and result not in integers:
            count += 1
            copy.output[0] = f"{result}~whole"
            nodes += _noise(copy.output[0], result, count)
    del graph.node[:]
    graph.node.extend(nodes)
    return count


def _noise(name: str, shaken: str, seed: int) -> list[onnx.NodeProto]:
    factor = f"{name}~factor"
    low, high = 1.0 - _LAST_BIT, 1.0 + _LAST_BIT
    draw = helper.make_node(
        "RandomUniformLike", [name], [factor], low=low, high=high, seed=float(seed)
    )
    return [draw, helper.make_node("Mul", [name, factor], [shaken])]
