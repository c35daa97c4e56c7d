"""The product as a function of its own, and what the host does for a call, step by step."""

from __future__ import annotations

import numpy as np
import pytest
import tvm_ffi
from gpu_runtime import fake_gpu
from gpu_runtime.fake_gpu import OnGpu, aligned
from tolerances import OPERATOR_REL, rounded_operator_error

from moonpoly import _ffi_api

DTYPE = "float16"
M, N, K = 70, 40, 136


@pytest.fixture(scope="module")
def kernels(fake_driver):
    return _ffi_api.GpuKernelSet(
        *fake_gpu.artifact(fake_gpu.kernel(64, 32), fake_gpu.kernel(64, 32, loads="strided"))
    )


@pytest.fixture
def operands(rng):
    a, b, c = aligned((M, K), 0), aligned((N, K), 0), aligned((M, N))
    a[...], b[...] = rng.uniform(-1, 1, a.shape), rng.uniform(-1, 1, b.shape)
    return a, b, c


@pytest.mark.parametrize("trans_b", [False, True])
def test_a_function_takes_the_operands_alone(kernels, operands, trans_b):
    a, b, c = operands
    tvm_ffi.register_global_func(
        "moonpoly.test.product", _ffi_api.gpu_product(kernels, trans_b, True), override=True
    )
    product = tvm_ffi.get_global_func("moonpoly.test.product")
    product(*(tvm_ffi.from_dlpack(OnGpu(x)) for x in (a, b if trans_b else b.T, c)))
    assert rounded_operator_error(c, a, b.T, DTYPE) <= OPERATOR_REL[DTYPE]


def test_a_transposed_operand_is_a_matrix(kernels, operands):
    a, _, c = operands
    vector = aligned((K,), 0)
    product = _ffi_api.gpu_product(kernels, True, True)
    with pytest.raises(ValueError, match="B must have 2 dimensions"):
        product(*(tvm_ffi.from_dlpack(OnGpu(x)) for x in (a, vector, c)))


@pytest.mark.parametrize("step", ["encode", "look_up", "plan", "call"])
def test_every_step_of_a_call_is_timed(kernels, fake_driver, operands, step):
    a, b, c = operands
    sets = [[tvm_ffi.from_dlpack(OnGpu(x))] * 2 for x in (a, b.T, c)]
    fake_driver.fake_log()
    us = np.from_dlpack(_ffi_api.gpu_bench_host(kernels, step, *sets, 3, 2))
    assert us.shape == (2,)
    assert (us > 0).all()
    launches = len(fake_driver.fake_log().decode().splitlines())
    # A batch that isn't counted comes first.
    assert launches == (9 if step == "call" else 0)


def test_a_step_that_is_none_is_refused(kernels, operands):
    a, b, c = operands
    sets = [[tvm_ffi.from_dlpack(OnGpu(x))] for x in (a, b.T, c)]
    with pytest.raises(ValueError, match="encode, look_up, plan or call"):
        _ffi_api.gpu_bench_host(kernels, "nothing", *sets, 1, 1)
    with pytest.raises(ValueError, match="as many A as B"):
        _ffi_api.gpu_bench_host(kernels, "call", sets[0], sets[1], [], 1, 1)
