"""What the sanitizers watch on a GPU, on one that the host plays: every committed kernel's ways."""

from __future__ import annotations

import ctypes

import numpy as np
import pytest
from gpu_runtime import every_kernel, fake_gpu

from moonpoly import _ffi_api
from moonpoly.autotune.gpu.outline import planning_manifest
from moonpoly.target import Target
from moonpoly.workload import Workload

TARGET = Target.parse("cuda-sm90a")


class HostOperands:
    """Room in the host's memory, which is the pretended GPU's."""

    def __init__(self) -> None:
        self._room = [fake_gpu.aligned((1 << 21,), 0, dtype="int8") for _ in "abc"]

    def put(self, array, which):
        self._room[which][: array.nbytes] = np.frombuffer(array.tobytes(), np.int8)
        there = (ctypes.c_char * array.nbytes).from_address(self._room[which].ctypes.data)
        return fake_gpu.OnGpu(np.ndarray(array.shape, array.dtype, there))

    def get(self, like, which):
        return self._room[which][: like.nbytes].view(like.dtype).reshape(like.shape)


# All of float16, and of the others as many as tell their types' widths apart.
@pytest.mark.parametrize(
    ("dtype", "every"), [("float16", 1), ("int8", 16), ("tf32", 16), ("float8_e4m3fn", 16)]
)
def test_every_kernel_is_right_in_each_of_its_ways(fake_driver, rng, monkeypatch, dtype, every):
    # Nothing wraps around here, every store is an element's, and the host is slow.
    monkeypatch.setattr(every_kernel, "WHOLE_STEPS", 1)
    monkeypatch.setattr(every_kernel, "SHARED_STEPS", 8)
    manifest = planning_manifest(TARGET, Workload("gemm", dtype))
    types = manifest["dtype"], manifest["out_dtype"]
    operands, ways = HostOperands(), set()
    for entry in manifest["kernels"][::every]:
        kernel, image = fake_gpu.played(entry, types)
        for whole in (True, False):
            text = every_kernel.shrunk(manifest, kernel, whole=whole)
            kernels = _ffi_api.GpuKernelSet(text, {kernel["cubin"]: image})
            for use, shape in every_kernel.shapes_of(kernel, dtype, whole=whole).items():
                plans = every_kernel.plans_of(kernels, kernel, dtype, shape, whole=whole)
                assert plans, (kernel["name"], use)
                if use in ("vectors", "pairs"):
                    continue
                for plan in plans:
                    every_kernel.run(kernels, operands, rng, types, shape, plan)
                    [region] = plan["regions"]
                    ways.add((kernel["loads"], region["cluster"] > 1, region["slices"] > 1))
    for loads in {kernel["loads"] for kernel in manifest["kernels"][::every]}:
        assert (loads, False, False) in ways
    if every == 1:
        assert {("direct", False, True), ("gemv", False, True)} <= ways
        assert {("tma", True, False), ("tma", False, True), ("tma", True, True)} <= ways
