"""ONNX Runtime on whole models: a default session, all optimisations, IOBinding."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import onnxruntime

from . import Array, BoundModel


class OnnxRuntimeModel:
    """A session with inputs and outputs bound to preallocated memory.

    Parameters
    ----------
    threads
        Threads within an operator.
    level
        How far the session may rewrite the graph.
    """

    def __init__(
        self,
        threads: int,
        level: onnxruntime.GraphOptimizationLevel = (
            onnxruntime.GraphOptimizationLevel.ORT_ENABLE_ALL
        ),
    ) -> None:
        onnxruntime.set_default_logger_severity(3)
        self._threads = threads
        self._level = level
        self._session: onnxruntime.InferenceSession | None = None
        # A binding holds bare addresses: the arrays must outlive it.
        self._bound: list[dict[str, Array]] = []

    def facts(self) -> dict[str, str]:
        return {
            "version": f"onnxruntime {onnxruntime.__version__}",
            "threads": str(self._threads),
        }

    def load(self, path: str) -> None:
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = self._threads
        options.graph_optimization_level = self._level
        self._session = onnxruntime.InferenceSession(
            path, options, providers=["CPUExecutionProvider"]
        )

    def bind(self, inputs: dict[str, Array]) -> BoundModel:
        session = self._session
        assert session is not None, "load comes before bind"
        names = [output.name for output in session.get_outputs()]
        # The first run tells the shapes of the outputs.
        first = dict(zip(names, session.run(names, inputs), strict=True))
        if any(_differs(output.shape, first[output.name]) for output in session.get_outputs()):
            # A file may declare another shape than it computes; memory that is given is held to it.
            return BoundModel(lambda: session.run(names, inputs), lambda: first)
        outputs = {name: np.empty_like(value) for name, value in first.items()}
        self._bound = [inputs, outputs]
        binding = session.io_binding()
        for name, array in inputs.items():
            binding.bind_input(name, "cpu", 0, array.dtype, array.shape, array.ctypes.data)
        for name, array in outputs.items():
            binding.bind_output(name, "cpu", 0, array.dtype, array.shape, array.ctypes.data)
        run = session.run_with_iobinding
        return BoundModel(lambda: run(binding), lambda: outputs)


def _differs(declared: Sequence[object], computed: Array) -> bool:
    """Whether a declared shape, of numbers and names, can't be the one computed."""
    return len(declared) != computed.ndim or any(
        isinstance(dim, int) and dim != size
        for dim, size in zip(declared, computed.shape, strict=True)
    )


def create(threads: int) -> OnnxRuntimeModel:
    """Create the contender."""
    return OnnxRuntimeModel(threads)
