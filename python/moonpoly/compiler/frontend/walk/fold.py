"""Values of nodes whose operands are known, by ONNX's reference evaluator."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import onnx
from onnx.reference import ReferenceEvaluator

from moonpoly.compiler.frontend.model.standard import STANDARD_DOMAINS
from moonpoly.compiler.frontend.node.failures import UNKNOWN_FORM_ERRORS

# Operands above this many elements are left to the compiler, which folds with generated code.
_MAX_ELEMENTS = 1 << 22
# The evaluator's loops over these are slow.
_MAX_HEAVY_ELEMENTS = 1 << 12
_LIGHT = frozenset(
    {
        *("Add", "Cast", "Concat", "DequantizeLinear", "Div", "Expand", "Flatten", "Gather"),
        *("Identity", "Mul", "Reshape", "Slice", "Split", "Squeeze", "Sub", "Tile"),
        *("Transpose", "Unsqueeze"),
    }
)
_RANDOM = frozenset(
    {
        *("Bernoulli", "Dropout", "Multinomial", "RandomNormal", "RandomNormalLike"),
        *("RandomUniform", "RandomUniformLike"),
    }
)


def fold_node(
    node: onnx.NodeProto, operands: Sequence[np.ndarray | None], opsets: Mapping[str, int]
) -> list[np.ndarray] | None:
    """Return the node's results, or None if it is not one to evaluate at compile time.

    Parameters
    ----------
    operands
        The operands' values; None where one is left out.
    opsets
        Domain → version.
    """
    size = sum(array.size for array in operands if array is not None)
    limit = _MAX_ELEMENTS if node.op_type in _LIGHT else _MAX_HEAVY_ELEMENTS
    if node.domain not in STANDARD_DOMAINS or node.op_type in _RANDOM or size > limit:
        return None
    if any(attribute.HasField("g") or attribute.graphs for attribute in node.attribute):
        return None
    if node.op_type == "Constant" and node.attribute[0].name == "value":
        return [onnx.numpy_helper.to_array(node.attribute[0].t)]
    if node.op_type == "Identity":
        return [array for array in operands if array is not None]
    given = {
        name: array
        for name, array in zip(node.input, operands, strict=True)
        if name and array is not None
    }
    try:
        results = ReferenceEvaluator(_model_of(node, given, opsets)).run(None, given)
    except UNKNOWN_FORM_ERRORS:
        # The node's own converter says better what is wrong with it, if anything is.
        return None
    return results if all(isinstance(array, np.ndarray) for array in results) else None


def _model_of(
    node: onnx.NodeProto, given: Mapping[str, np.ndarray], opsets: Mapping[str, int]
) -> onnx.ModelProto:
    inputs = [
        onnx.helper.make_tensor_value_info(
            name, onnx.helper.np_dtype_to_tensor_dtype(array.dtype), array.shape
        )
        for name, array in given.items()
    ]
    outputs = [onnx.ValueInfoProto(name=name) for name in node.output if name]
    return onnx.helper.make_model(
        onnx.helper.make_graph([node], "fold", inputs, outputs),
        opset_imports=[onnx.helper.make_opsetid("", opsets[""])],
    )
