"""ONNX Runtime: a MatMul session with IOBinding; constant B is an initialiser, hence pre-packed."""

from __future__ import annotations

import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, helper

from . import CONSTANT, DYNAMIC, Matrix, Way

_OPSET = 17
_SPIN_US = "2000"


def _model(b: Matrix | None, m: int, n: int, k: int) -> bytes:
    inputs = [helper.make_tensor_value_info("A", TensorProto.FLOAT, [m, k])]
    initialisers = []
    if b is None:
        inputs.append(helper.make_tensor_value_info("B", TensorProto.FLOAT, [k, n]))
    else:
        initialisers.append(
            helper.make_tensor("B", TensorProto.FLOAT, [k, n], b.tobytes(), raw=True)
        )
    graph = helper.make_graph(
        [helper.make_node("MatMul", ["A", "B"], ["C"])],
        "matmul",
        inputs,
        [helper.make_tensor_value_info("C", TensorProto.FLOAT, [m, n])],
        initialisers,
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", _OPSET)])
    model.ir_version = 8
    return model.SerializeToString()


class OnnxRuntime:
    """ONNX Runtime's CPU provider."""

    def __init__(self, threads: int) -> None:
        onnxruntime.set_default_logger_severity(3)
        self._threads = threads

    def facts(self) -> dict[str, str]:
        return {
            "version": f"onnxruntime {onnxruntime.__version__}, onnx {onnx.__version__}",
            "kernels": "CPUExecutionProvider",
            "threads": str(self._threads),
        }

    def _session(self, model: bytes) -> onnxruntime.InferenceSession:
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = self._threads
        options.inter_op_num_threads = 1
        options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_ALL
        # By default an idle pool spins for tens of milliseconds. This changes nothing between
        # back-to-back calls and gives the cores back sooner to whoever has the next turn.
        options.add_session_config_entry("session.intra_op.spin_duration_us", _SPIN_US)
        return onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])

    def _way(self, mode: str, a: Matrix, b: Matrix, c: Matrix) -> Way:
        (m, k), n = a.shape, b.shape[1]
        session = self._session(_model(b if mode == CONSTANT else None, m, n, k))
        binding = session.io_binding()
        for name, array in (("A", a), ("B", b)):
            if name == "A" or mode == DYNAMIC:
                binding.bind_input(name, "cpu", 0, np.float32, array.shape, array.ctypes.data)
        binding.bind_output("C", "cpu", 0, np.float32, c.shape, c.ctypes.data)
        run = session.run_with_iobinding
        return Way(f"session_{mode}", (mode,), lambda: run(binding), lambda: c)

    def ways(self, a: Matrix, b: Matrix, c: Matrix) -> list[Way]:
        return [self._way(mode, a, b, c) for mode in (CONSTANT, DYNAMIC)]


def create(threads: int) -> OnnxRuntime:
    """Create the contender."""
    return OnnxRuntime(threads)
