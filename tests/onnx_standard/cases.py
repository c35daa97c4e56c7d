"""The ONNX standard's own node tests, with what is needed to count them."""

from __future__ import annotations

import functools
import re
import warnings
from dataclasses import dataclass

import numpy as np
import onnx
from onnx import numpy_helper
from onnx.backend.test.loader import load_model_tests
from onnx.reference import ReferenceEvaluator

# The element types that a case may use to count towards the share that must pass.
COUNTED_TYPES = frozenset(
    {
        "float", "float16", "bfloat16", "double", "bool",
        "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64",
    }
)  # fmt: skip

# A function-bodied operator has a second case, of the nodes that it stands for.
_EXPANDED = re.compile(r"_expanded(_ver\d+)?$")
# The standard took these results in float32: they are further from the exact ones than its own
# tolerance allows. Its reference gives them in double precision.
_ROUNDED = frozenset({"test_dft_inverse", "test_dft_inverse_opset19"})
_TRAINING = "ai.onnx.preview.training"


@dataclass(frozen=True)
class Case:
    """One node test: a model with inputs and the outputs that it must give.

    Parameters
    ----------
    operator
        The operator under test; that of the plain case for an expanded one.
    types
        Element types of the inputs and outputs, and ``sequence`` or ``optional`` where one is not
        a tensor.
    training
        Whether it is an operator of the training domain.
    """

    name: str
    operator: str
    types: frozenset[str]
    training: bool
    model: onnx.ModelProto
    inputs: list[np.ndarray]
    outputs: list[np.ndarray]
    rtol: float
    atol: float

    @property
    def counted(self) -> bool:
        """Whether it counts towards the share that must pass: tensors of common types only."""
        return self.types <= COUNTED_TYPES and not self.training


@functools.cache
def load_cases() -> dict[str, Case]:
    """Return all node tests of the installed onnx, by name."""
    with warnings.catch_warnings():
        # The cases compute their expectations with overflows and divisions by zero on purpose.
        warnings.simplefilter("ignore")
        tests = {test.name: test for test in load_model_tests(kind="node")}
    return {name: _case(test, tests) for name, test in sorted(tests.items())}


def _case(test, tests) -> Case:
    plain = tests.get(_EXPANDED.sub("", test.name), test)
    graph = test.model.graph
    inputs, outputs = test.data_sets[0]
    return Case(
        name=test.name,
        operator=_operator(plain.model.graph),
        types=frozenset(_type_name(value) for value in [*graph.input, *graph.output]),
        training=any(node.domain == _TRAINING for node in plain.model.graph.node),
        model=test.model,
        inputs=[_value(given) for given in inputs],
        outputs=_in_double(test) if test.name in _ROUNDED else [_value(each) for each in outputs],
        rtol=test.rtol,
        atol=test.atol,
    )


def _in_double(test) -> list[np.ndarray]:
    """Return a case's outputs as the standard's reference computes them in double precision."""
    inputs, outputs = test.data_sets[0]
    names = [value.name for value in test.model.graph.input]
    wide = [
        each.astype(np.float64) if each.dtype == np.float32 else each
        for each in map(_value, inputs)
    ]
    results = ReferenceEvaluator(test.model).run(None, dict(zip(names, wide, strict=True)))
    return [got.astype(_value(old).dtype) for got, old in zip(results, outputs, strict=True)]


def _value(value):
    """Return a value as an array; the narrow types come as protos."""
    return numpy_helper.to_array(value) if isinstance(value, onnx.TensorProto) else value


def _operator(graph: onnx.GraphProto) -> str:
    """Return the operator that a graph tests: the node after those that make constants."""
    made = [node for node in graph.node if node.op_type != "Constant"] or list(graph.node)
    domain = made[0].domain
    return f"{domain}.{made[0].op_type}" if domain not in ("", "ai.onnx") else made[0].op_type


def _type_name(value: onnx.ValueInfoProto) -> str:
    kind = value.type.WhichOneof("value")
    if kind != "tensor_type":
        return kind.removesuffix("_type")
    return onnx.TensorProto.DataType.Name(value.type.tensor_type.elem_type).lower()
