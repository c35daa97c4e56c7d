"""Small ONNX graphs from text, and running them through the compiler and through ONNX Runtime."""

from __future__ import annotations

import numpy as np
import onnx
import onnxruntime
import reference_intrinsics
import tvm
from onnx import numpy_helper, parser
from tolerances import MODEL_REL, model_error
from tvm import relax

from moonpoly.compiler.codegen import generate
from moonpoly.compiler.frontend import import_model
from moonpoly.compiler.pipeline import lowering_phases, rewriting_phases, run_phases
from moonpoly.compiler.sites import SiteTable
from moonpoly.target import Target

HEADER = '<ir_version: 8, opset_import: ["" : 17, "com.microsoft" : 1]>\n'
TARGET = Target.parse("host")
LANES = TARGET.vector_lanes["float32"]


def graph(text: str, **weights: np.ndarray) -> onnx.ModelProto:
    """Return the model of a graph in ONNX's text syntax, with ``weights`` as initialisers."""
    model = parser.parse_model(HEADER + text)
    for name, value in weights.items():
        model.graph.initializer.append(numpy_helper.from_array(np.asarray(value), name))
    return model


def rewrite(model: onnx.ModelProto) -> tuple[tvm.IRModule, SiteTable]:
    """Return the module after the rewriting phases, and its call sites."""
    imported = import_model(model)
    table = SiteTable(imported.digest, LANES)
    return run_phases(imported.module, rewriting_phases(table)), table


class Reference:
    """A model compiled by the real pipeline that runs on the NumPy intrinsics."""

    def __init__(self, model: onnx.ModelProto) -> None:
        self.names = [value.name for value in import_model(model).inputs]
        mod, self.table = rewrite(model)
        target = TARGET.tvm_target()
        with target:
            mod = run_phases(mod, lowering_phases(target, self.table))
        executable = generate(reference_intrinsics.redirect(mod), target)
        library = executable.jit()
        for site in self.table.sites:
            function = None
            if site.epilogue is not None:
                function = library.get_function(site.epilogue.function, query_imports=True)
            reference_intrinsics.register(site.to_dict(), function)
        self._vm = relax.VirtualMachine(executable, tvm.cpu())

    def __call__(self, **feeds: np.ndarray) -> list[np.ndarray]:
        result = self._vm["main"](*[tvm.runtime.tensor(feeds[name]) for name in self.names])
        values = [result] if isinstance(result, tvm.runtime.Tensor) else list(result)
        return [value.numpy() for value in values]


class Compiled:
    """A model compiled as users do, on the run-time library."""

    def __init__(self, model: onnx.ModelProto) -> None:
        from moonpoly import compiler

        self.executable = compiler.compile(model)

    def __call__(self, **feeds: np.ndarray) -> list[np.ndarray]:
        return list(self.executable(**feeds).values())


def random_feeds(
    model: onnx.ModelProto, rng: np.random.Generator, **dims: int
) -> dict[str, np.ndarray]:
    """Return standard normal inputs (small integers for integer inputs) at the given sizes."""
    constants = {tensor.name for tensor in model.graph.initializer}
    feeds = {}
    for value in model.graph.input:
        if value.name in constants:
            continue
        tensor = value.type.tensor_type
        shape = [dim.dim_value or dims[dim.dim_param] for dim in tensor.shape.dim]
        dtype = onnx.helper.tensor_dtype_to_np_dtype(tensor.elem_type)
        if np.issubdtype(dtype, np.floating):
            feeds[value.name] = rng.standard_normal(shape).astype(dtype)
        else:
            feeds[value.name] = rng.integers(0, 2, shape).astype(dtype)
    return feeds


def assert_matches_ort(
    model: onnx.ModelProto, run, rng: np.random.Generator, sizes: list[dict[str, int]]
) -> None:
    """Check ``run(**feeds)``, a list of outputs, against ONNX Runtime at each of ``sizes``."""
    session = onnxruntime.InferenceSession(
        model.SerializeToString(), providers=["CPUExecutionProvider"]
    )
    for dims in sizes:
        feeds = random_feeds(model, rng, **dims)
        want = session.run(None, feeds)
        got = run(**feeds)
        assert len(got) == len(want)
        for position, (left, right) in enumerate(zip(got, want, strict=True)):
            assert left.shape == right.shape, f"output {position} at {dims}"
            assert left.dtype == right.dtype, f"output {position} at {dims}"
            error = model_error(left, right)
            assert error <= MODEL_REL["float32"], f"output {position} at {dims}: {error}"
