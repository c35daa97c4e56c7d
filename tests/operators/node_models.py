"""Models of one node, compiled and compared with ONNX Runtime."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np
import onnx
import onnx.compose
import onnxruntime
import pytest
from onnx import helper
from onnx.reference import ReferenceEvaluator
from tolerances import model_error

from moonpoly import compiler

OPSETS = {"": 21, "com.microsoft": 1}


def node_model(
    op: str,
    inputs: Mapping[str, tuple[np.dtype | type, Sequence[int | str]]],
    outputs: Sequence[str] = ("y",),
    constants: Mapping[str, np.ndarray] | None = None,
    operands: Sequence[str] | None = None,
    domain: str = "",
    opset: int = OPSETS[""],
    output_types: Sequence[int] = (),
    **attrs: object,
) -> onnx.ModelProto:
    """Return a model of one node.

    Parameters
    ----------
    inputs
        Name → type and shape; a string is a symbolic dimension.
    constants
        Initialisers by name.
    operands
        The node's operands in order; "" where one is left out. Inputs, then constants, by default.
    output_types
        ONNX's element types; float where there is none.
    """
    constants = constants or {}
    operands = [*inputs, *constants] if operands is None else list(operands)
    infos = [
        helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(np.dtype(dtype)), shape)
        for name, (dtype, shape) in inputs.items()
    ]
    types = [*output_types, *[onnx.TensorProto.FLOAT] * (len(outputs) - len(output_types))]
    results = [
        helper.make_tensor_value_info(name, kind, None)
        for name, kind in zip(outputs, types, strict=True)
        if name
    ]
    node = helper.make_node(op, operands, list(outputs), name="node", domain=domain, **attrs)
    weights = [onnx.numpy_helper.from_array(np.asarray(v), k) for k, v in constants.items()]
    graph = helper.make_graph([node], "g", infos, results, weights)
    return helper.make_model(
        graph,
        opset_imports=[
            helper.make_opsetid("", opset),
            helper.make_opsetid("com.microsoft", OPSETS["com.microsoft"]),
        ],
        ir_version=10,
    )


class Pair:
    """A model compiled, beside an oracle.

    Parameters
    ----------
    model
        A model of one node, or of few.
    by_reference
        Take ONNX's reference evaluator for the oracle, not ONNX Runtime with its graph left alone.
    """

    def __init__(self, model: onnx.ModelProto, by_reference: bool = False) -> None:
        self.executable = compiler.compile(model)
        if by_reference:
            self._oracle = ReferenceEvaluator(model)
        else:
            options = onnxruntime.SessionOptions()
            options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
            options.log_severity_level = 3
            # With more, some kernels quantise each thread's rows by a range of their own.
            options.intra_op_num_threads = 1
            self._oracle = onnxruntime.InferenceSession(
                model.SerializeToString(), options, providers=["CPUExecutionProvider"]
            )

    def run(self, **feeds: np.ndarray) -> list[tuple[np.ndarray, np.ndarray]]:
        """Return what was got and what is wanted of every output."""
        got = list(self.executable(**feeds).values())
        wanted = self._oracle.run(None, feeds)
        pairs = list(zip(got, wanted, strict=True))
        for left, right in pairs:
            assert left.shape == right.shape
            assert left.dtype == right.dtype
        return pairs

    def assert_equal(self, **feeds: np.ndarray) -> None:
        """Check that every output is the same, bit for bit."""
        for got, wanted in self.run(**feeds):
            np.testing.assert_array_equal(got, wanted)

    def assert_close(self, bound: float, **feeds: np.ndarray) -> None:
        """Check the largest error relative to the largest magnitude of each output."""
        for got, wanted in self.run(**feeds):
            if not wanted.size:
                continue
            error = model_error(got, wanted)
            assert error <= bound, f"{error:.3g} > {bound:.3g}"


@dataclass(frozen=True)
class Form:
    """One way to use an operator.

    Parameters
    ----------
    model
        A model of one node.
    feeds
        Gives its inputs at the sizes that a test goes through.
    """

    model: onnx.ModelProto
    feeds: Callable[..., dict[str, np.ndarray]]


def assert_forms_match(
    forms: Mapping[str, Form],
    sizes: Sequence[Sequence[int]],
    bound: float,
    by_reference: bool = False,
) -> None:
    """Check forms, which are compiled as one model, at each of ``sizes``."""
    parts = {
        name: onnx.compose.add_prefix(form.model, f"{name}.", rename_functions=False)
        for name, form in forms.items()
    }
    first = next(iter(parts.values()))
    whole = onnx.ModelProto()
    whole.CopyFrom(first)
    for field in ("node", "input", "output", "initializer"):
        target = getattr(whole.graph, field)
        del target[:]
        for part in parts.values():
            target.extend(getattr(part.graph, field))
    pair = Pair(whole, by_reference=by_reference)
    outputs = [output.name for output in whole.graph.output]
    for size in sizes:
        feeds = {
            f"{name}.{key}": value
            for name, form in forms.items()
            for key, value in form.feeds(*size).items()
        }
        for name, (got, wanted) in zip(outputs, pair.run(**feeds), strict=True):
            if not np.issubdtype(wanted.dtype, np.floating):
                np.testing.assert_array_equal(got, wanted, err_msg=f"{name} at {size}")
                continue
            error = model_error(got, wanted)
            assert error <= bound, f"{name} at {size}: {error:.3g} > {bound:.3g}"


def random_integers(rng: np.random.Generator, dtype: type, shape: Sequence[int]) -> np.ndarray:
    """Return integers of all of ``dtype``, or of what of it the oracle adds up rightly."""
    low, high = np.iinfo(dtype).min, np.iinfo(dtype).max
    if dtype == np.int8 and _oracle_saturates():
        low, high = low // 2, high // 2
    return rng.integers(low, high + 1, tuple(shape)).astype(dtype)


@cache
def _oracle_saturates() -> bool:
    """Whether ONNX Runtime adds up pairs of uint8 times int8 in 16 bits: where there is no VNNI.

    This project's sums are exact everywhere, which its own tests compare with NumPy's.
    """
    flags = Path("/proc/cpuinfo").read_text(encoding="utf-8")
    return "avx512_vnni" not in flags and "avx_vnni" not in flags


def slow(*values: object) -> object:
    """Return a parameter of a test that runs with the slow ones only: each compiles a model."""
    return pytest.param(*values, marks=pytest.mark.slow)
