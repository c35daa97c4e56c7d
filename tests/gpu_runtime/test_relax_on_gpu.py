"""A compiled Relax module calls the product by name at any shape: on the stream, in a graph."""

from __future__ import annotations

import numpy as np
import pytest
import tvm
import tvm_ffi
from compiler.modules import dim, tensor
from tolerances import OPERATOR_REL, rounded_operator_error
from tvm import relax

from moonpoly.planning import product_function
from moonpoly.target import Target
from moonpoly.workload import Workload

pytestmark = pytest.mark.gpu

DTYPE = "float16"
TARGET = Target.parse("cuda-sm90a")


def two_layers(product):
    """Return relu(x wᵀ) vᵀ with every dimension symbolic; the relu is generated code."""
    m, n, k, j = map(dim, "mnkj")
    x, w, v = (
        tensor(name, *shape, dtype=DTYPE)
        for name, *shape in (("x", m, k), ("w", n, k), ("v", j, n))
    )
    builder = relax.BlockBuilder()
    with builder.function("main", [x, w, v]):
        with builder.dataflow():
            hidden = relax.TensorType([m, n], DTYPE)
            first = builder.emit(relax.call_dps_packed(product, [x, w], out_ty=hidden))
            positive = builder.emit(relax.op.nn.relu(first))
            last = relax.call_dps_packed(
                product, [positive, v], out_ty=relax.TensorType([m, j], DTYPE)
            )
            result = builder.emit_output(last)
        builder.emit_func_output(result)
    return builder.get()


@pytest.fixture(scope="module")
def layers(torch):
    """Return the compiled function of :func:`two_layers`."""
    product = product_function(TARGET, Workload("gemm", DTYPE), trans_b=True)
    target = TARGET.tvm_target()
    lower = tvm.ir.transform.Sequential(
        [
            relax.transform.LegalizeOps(),
            relax.transform.AnnotateTIROpPattern(),
            relax.transform.FuseOps(),
            relax.transform.FuseTIR(),
            tvm.s_tir.dlight.ApplyDefaultSchedule(tvm.s_tir.dlight.gpu.Fallback()),
        ]
    )
    with target:
        executable = tvm.compile(lower(two_layers(product)), target=target)
    return relax.VirtualMachine(executable, tvm.cuda(0))["main"]


def draw(torch, m, n, k, j):
    shapes = (m, k), (n, k), (j, n)
    return [torch.empty(s, dtype=torch.float16, device="cuda").uniform_(-1, 1) for s in shapes]


def run(torch, layers, operands):
    """Return the module's result for tensors of torch, on torch's stream, without a copy."""
    with tvm_ffi.use_torch_stream():
        return torch.from_dlpack(layers(*map(tvm_ffi.from_dlpack, operands)))


def check(torch, out, x, w, v):
    hidden = (x.double() @ w.double().t()).half().relu()
    host = [np.asarray(each.cpu().numpy()) for each in (out, hidden, v.t())]
    # A hidden value near the middle of two numbers may have been rounded to the other one.
    slack = 2.0**-10
    assert rounded_operator_error(*host, DTYPE) <= OPERATOR_REL[DTYPE] + slack


@pytest.mark.parametrize(
    "shape", [(1, 64, 32, 8), (77, 768, 129, 41), (300, 128, 1000, 512)], ids=str
)
def test_a_module_runs_at_any_shape(torch, layers, shape):
    operands = draw(torch, *shape)
    check(torch, run(torch, layers, operands), *operands)


def test_a_module_follows_the_stream_of_torch(torch, layers):
    operands = draw(torch, 64, 256, 128, 96)
    run(torch, layers, operands)
    torch.cuda.synchronize()
    with torch.cuda.stream(torch.cuda.Stream()):
        torch.cuda._sleep(50_000_000)
        for each in operands:
            each.fill_(1.0)
        # Read on the same stream, which nothing else waits for.
        assert float(run(torch, layers, operands).float().sum()) == 64 * 96 * 128 * 256


def test_a_graph_captures_a_module(torch, layers):
    operands = draw(torch, 64, 256, 128, 96)
    run(torch, layers, operands)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        out = run(torch, layers, operands)
    for each in operands:
        each.uniform_(-1, 1)
    graph.replay()
    torch.cuda.synchronize()
    check(torch, out, *operands)
