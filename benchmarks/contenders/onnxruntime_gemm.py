"""ONNX Runtime: a MatMul session with IOBinding; constant B is an initialiser, hence pre-packed."""

from __future__ import annotations

import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, helper

from . import CONSTANT, DYNAMIC, Matrix, Way

_OPSET = 17
_IR_VERSION = 8
_SPIN_US = "2000"


def _model(m: int, n: int, k: int, constant: bool) -> bytes:
    """C = MatMul(A, B); a constant B is an initialiser whose bytes are given to the session."""
    inputs = [helper.make_tensor_value_info("A", TensorProto.FLOAT, [m, k])]
    initialisers = []
    if constant:
        weight = TensorProto(name="B", data_type=TensorProto.FLOAT, dims=[k, n])
        weight.data_location = TensorProto.EXTERNAL
        for key, value in (("location", "B"), ("offset", "0"), ("length", str(4 * k * n))):
            weight.external_data.add(key=key, value=value)
        initialisers.append(weight)
    else:
        inputs.append(helper.make_tensor_value_info("B", TensorProto.FLOAT, [k, n]))
    graph = helper.make_graph(
        [helper.make_node("MatMul", ["A", "B"], ["C"])],
        "matmul",
        inputs,
        [helper.make_tensor_value_info("C", TensorProto.FLOAT, [m, n])],
        initialisers,
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", _OPSET)])
    model.ir_version = _IR_VERSION
    return bytes(model.SerializeToString())


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

    def _options(self) -> onnxruntime.SessionOptions:
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = self._threads
        options.inter_op_num_threads = 1
        options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_ALL
        # By default an idle pool spins for tens of milliseconds. This changes nothing between
        # back-to-back calls and gives the cores back sooner to whoever has the next turn.
        options.add_session_config_entry("session.intra_op.spin_duration_us", _SPIN_US)
        return options

    def _way(self, mode: str, a: Matrix, b: Matrix, c: Matrix) -> Way:
        (m, k), n = a.shape, b.shape[1]
        options = self._options()
        constant = mode == CONSTANT
        if constant:
            # As good as bytes in the model (it is pre-packed as well), without copying them thrice.
            weight = onnxruntime.OrtValue.ortvalue_from_numpy(b)
            options.add_external_initializers(["B"], [weight])
        session = onnxruntime.InferenceSession(
            _model(m, n, k, constant), options, providers=["CPUExecutionProvider"]
        )
        binding = session.io_binding()
        for name, array in (("A", a),) if constant else (("A", a), ("B", b)):
            binding.bind_input(name, "cpu", 0, np.float32, array.shape, array.ctypes.data)
        binding.bind_output("C", "cpu", 0, np.float32, c.shape, c.ctypes.data)
        run = session.run_with_iobinding
        return Way(f"session_{mode}", (mode,), lambda: run(binding), lambda _: c)

    def ways(self, a: Matrix, b: Matrix, c: Matrix) -> list[Way]:
        return [self._way(mode, a, b, c) for mode in (CONSTANT, DYNAMIC)]


def create(threads: int) -> OnnxRuntime:
    """Create the contender."""
    return OnnxRuntime(threads)
