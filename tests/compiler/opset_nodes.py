"""Nodes as the opsets from 7 on write them: what was an attribute becomes an operand, and so on."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
import onnx
from graphs import graph
from onnx import helper

OLDEST, NEWEST = 7, onnx.defs.onnx_opset_version()

# What all nodes may read: any number of rows, and images of any height.
_INPUTS = "float[n,6] x, float[n,6] z, float[n,3,h,8] p, int64[n,6] i, bool[n,6] c"
_RNG = np.random.default_rng(1)
_WEIGHTS = {
    "axis1": np.array([1]),
    "axis_last": np.array([-1]),
    "axis_scalar": np.array(1),
    "begin": np.array([1]),
    "end": np.array([-1]),
    "two": np.array([2]),
    "three": np.array(3),
    "two_real": np.array(2, np.float32),
    "low": np.array(-0.5, np.float32),
    "high": np.array(0.75, np.float32),
    "pads": np.array([0, 1, 0, 2]),
    "pads1": np.array([1, 2]),
    "on_off": np.array([0.5, 2.0], np.float32),
    "scales": np.array([1, 1, 2, 3], np.float32),
    "parts": np.array([2, 4]),
    "to": np.array([-1, 2, 3]),
    "steps": np.array([-1, 3, 8]),
    "with_one": np.array([-1, 1, 6]),
    "rows": np.array([0, 2, 1]),
    "backward": np.array([0, -1, 2]),
    "step": np.array(0.05, np.float32),
    "zero": np.array(3, np.uint8),
    "channel": _RNG.random(3).astype(np.float32) + np.float32(0.5),
    "other": _RNG.standard_normal(3).astype(np.float32),
    "column": _RNG.standard_normal(6).astype(np.float32),
    "matrix": _RNG.standard_normal((6, 5)).astype(np.float32),
    "bias": _RNG.standard_normal(5).astype(np.float32),
    "roi": np.array([], np.float32),
    "gates": _RNG.standard_normal((1, 12, 8)).astype(np.float32) / 3,
    "again": _RNG.standard_normal((1, 12, 3)).astype(np.float32) / 3,
}

_Writer = Callable[[int], str]


def _over_axes(op: str, operand: str, axis: str, since: int, attrs: str = "") -> _Writer:
    """Write a node whose axis is an attribute before opset ``since``, and an operand from there."""
    value = int(_WEIGHTS[axis][0])
    old = f"{op}<axes=[{value}]{', ' * bool(attrs)}{attrs}>({operand})"
    new = f"{op}{f'<{attrs}>' * bool(attrs)}({operand}, {axis})"
    return lambda v: old if v < since else new


def _clip(v: int) -> str:
    return "Clip<min=-0.5, max=0.75>(x)" if v < 11 else "Clip(x, low, high)"


def _slice(v: int) -> str:
    old = "Slice<axes=[1], starts=[1], ends=[-1]>(x)"
    return old if v < 10 else "Slice(x, begin, end, axis1)"


def _pad(v: int) -> str:
    if v < 11:
        return "Pad<pads=[0,1,0,2], value=0.75>(x)"
    return "Pad(x, pads, high)" if v < 18 else "Pad(x, pads1, high, axis1)"


def _upsample(v: int) -> str:
    old = 'Upsample<mode="nearest", scales=[1.0, 1.0, 2.0, 3.0]>(p)'
    return old if v < 9 else 'Upsample<mode="linear">(p, scales)'


def _resize(v: int) -> str:
    new = 'Resize<mode="linear", coordinate_transformation_mode="half_pixel">'
    return 'Resize<mode="linear">(p, scales)' if v == 10 else f"{new}(p, roi, scales)"


def _top_k(v: int) -> str:
    if v < 10:
        return "TopK<axis=1, k=2>(x)"
    return "TopK<axis=1>(x, two)" if v == 10 else "TopK<axis=-1, largest=0, sorted=1>(x, two)"


def _split(v: int) -> str:
    if v < 13:
        return "Split<axis=1, split=[2,4]>(x)"
    return "Split<axis=1>(x, parts)" if v < 18 else "Split<axis=1, num_outputs=2>(x)"


def _max_pool(v: int) -> str:
    more = ", ceil_mode=1, dilations=[2,1]" if v >= 10 else ""
    return f"MaxPool<kernel_shape=[2,3], strides=[2,2]{more}>(p)"


# The operator and its results, and how the node is written at an opset.
_NODES: tuple[tuple[str, int, _Writer], ...] = (
    ("Add", 1, lambda v: "Add(x, column)"),
    ("ArgMax", 1, lambda v: "ArgMax<axis=-1, keepdims=0>(x)"),
    ("AveragePool", 1, lambda v: "AveragePool<kernel_shape=[2,3], pads=[1,0,1,0]>(p)"),
    ("BatchNormalization", 1, lambda v: "BatchNormalization(p, channel, other, other, channel)"),
    ("Cast", 1, lambda v: "Cast<to=6>(x)"),
    ("Clip", 1, _clip),
    ("Concat", 1, lambda v: f"Concat<axis={1 if v < 11 else -1}>(x, z)"),
    ("CumSum", 1, lambda v: "CumSum<reverse=1>(x, axis_scalar)"),
    ("Div", 1, lambda v: "Div(i, three)"),
    ("Dropout", 1, lambda v: "Dropout<ratio=0.5>(x)" if v < 12 else "Dropout(x, high)"),
    ("Equal", 1, lambda v: "Equal(i, three)" if v < 11 else "Equal(x, z)"),
    ("Flatten", 1, lambda v: f"Flatten<axis={2 if v < 11 else -2}>(p)"),
    ("Gather", 1, lambda v: f"Gather<axis=1>(x, {'rows' if v < 11 else 'backward'})"),
    ("Gelu", 1, lambda v: 'Gelu<approximate="tanh">(x)'),
    ("Gemm", 1, lambda v: f"Gemm<alpha=0.5, beta=2.0>(x, matrix{', bias' * (v < 11)})"),
    ("Greater", 1, lambda v: "Greater(x, z)"),
    ("Hardmax", 1, lambda v: "Hardmax<axis=2>(p)"),
    ("InstanceNormalization", 1, lambda v: "InstanceNormalization(p, channel, other)"),
    ("LSTM", 2, lambda v: "LSTM<hidden_size=3>(s, gates, again)"),
    ("LayerNormalization", 1, lambda v: "LayerNormalization<axis=-1>(x, column, column)"),
    ("LeakyRelu", 1, lambda v: "LeakyRelu<alpha=0.2>(x)"),
    ("LogSoftmax", 1, lambda v: "LogSoftmax<axis=1>(p)"),
    ("Max", 1, lambda v: "Max(x, z, x)" if v < 8 else "Max(x, column, z)"),
    ("MaxPool", 1, _max_pool),
    ("Mod", 1, lambda v: "Mod(i, three)" if v < 13 else "Mod<fmod=1>(x, high)"),
    ("OneHot", 1, lambda v: f"OneHot<axis={1 if v < 11 else -1}>(i, three, on_off)"),
    ("PRelu", 1, lambda v: "PRelu(x, column)"),
    ("Pad", 1, _pad),
    ("Pow", 1, lambda v: f"Pow(x, {'two_real' if v < 12 else 'three'})"),
    ("QuantizeLinear", 1, lambda v: "QuantizeLinear(x, step, zero)"),
    ("ReduceL2", 1, _over_axes("ReduceL2", "p", "axis1", 18, "keepdims=0")),
    ("ReduceMax", 1, _over_axes("ReduceMax", "x", "axis_last", 18, "keepdims=1")),
    ("ReduceMean", 1, _over_axes("ReduceMean", "p", "axis1", 18, "keepdims=1")),
    ("ReduceSum", 1, _over_axes("ReduceSum", "p", "axis_last", 13, "keepdims=0")),
    ("Reshape", 1, lambda v: "Reshape(x, to)"),
    ("Resize", 1, _resize),
    ("Scatter", 1, lambda v: "Scatter<axis=1>(x, i, z)"),
    ("ScatterElements", 1, lambda v: "ScatterElements<axis=1>(x, i, z)"),
    ("Shape", 1, lambda v: "Shape(p)" if v < 15 else "Shape<start=1, end=-1>(p)"),
    ("Slice", 1, _slice),
    ("Softmax", 1, lambda v: "Softmax<axis=1>(p)"),
    ("Split", 2, _split),
    ("Squeeze", 1, _over_axes("Squeeze", "u", "axis1", 13)),
    ("TopK", 2, _top_k),
    ("Unsqueeze", 1, _over_axes("Unsqueeze", "x", "axis1", 13)),
    ("Upsample", 1, _upsample),
    ("Where", 1, lambda v: "Where(c, x, z)"),
)
# Made of the inputs for nodes that want another shape: a sequence, and an axis of size 1.
_MADE = {"s": "s = Reshape(p, steps)", "u": "u = Reshape(x, with_one)"}


def opset_model(opset: int) -> onnx.ModelProto:
    """Return a model of all nodes whose operator has a version that begins with ``opset``.

    Each result is an output, named after its operator. With opset 7 that is every operator that
    it has; with a later one, those whose standard changed.
    """
    lines = list(_lines(opset))
    made = [line for name, line in _MADE.items() if any(f"({name}" in each for each in lines)]
    model = graph(f"g ({_INPUTS}) => (float unused) {{ {' '.join([*made, *lines])} }}")
    model.opset_import[0].version = opset
    # Version 3 wants every initialiser to be an input as well.
    model.ir_version = max(4, helper.find_min_ir_version_for(model.opset_import, True))
    used = {name for node in model.graph.node for name in node.input}
    for name, value in _WEIGHTS.items():
        if name in used:
            model.graph.initializer.append(onnx.numpy_helper.from_array(value, name))
    del model.graph.output[:]
    inferred = onnx.shape_inference.infer_shapes(model, strict_mode=True)
    model.graph.output.extend(v for v in inferred.graph.value_info if v.name not in _MADE)
    return model


def _lines(opset: int) -> Iterator[str]:
    for op, results, write in _NODES:
        try:
            schema = onnx.defs.get_schema(op, opset, "")
        except onnx.defs.SchemaError:
            continue
        if schema.deprecated or max(schema.since_version, OLDEST) != opset:
            continue
        names = [op if results == 1 else f"{op}{number}" for number in range(results)]
        yield f"{', '.join(names)} = {write(opset)}"
