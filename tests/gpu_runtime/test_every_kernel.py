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

DTYPE = "float16"


class HostOperands:
    """Room in the host's memory, which is the pretended GPU's."""

    def __init__(self) -> None:
        self._room = [fake_gpu.aligned((1 << 20,), 0) for _ in "abc"]

    def put(self, array, which):
        room = self._room[which]
        room[: array.size] = array.ravel()
        there = (ctypes.c_char * (array.size * 2)).from_address(room.ctypes.data)
        return fake_gpu.OnGpu(np.ndarray(array.shape, DTYPE, there))

    def result(self, m, n):
        return self._room[2][: m * n].reshape(m, n)


@pytest.fixture(scope="module")
def manifest():
    return planning_manifest(Target.parse("cuda-sm90a"), Workload("gemm", DTYPE))


def test_every_kernel_is_right_in_each_of_its_ways(fake_driver, manifest, rng, monkeypatch):
    # Nothing wraps around here, every store is an element's, and the host is slow.
    monkeypatch.setattr(every_kernel, "WHOLE_K", 40)
    monkeypatch.setattr(every_kernel, "SHARED_K", 4 * every_kernel.STEP + 8)
    operands, ways = HostOperands(), set()
    for entry in manifest["kernels"]:
        kernel, image = fake_gpu.played(entry)
        for whole in (True, False):
            text = every_kernel.shrunk(manifest, kernel, whole=whole)
            kernels = _ffi_api.GpuKernelSet(text, {kernel["cubin"]: image})
            for use, shape in every_kernel.shapes_of(kernel, whole=whole).items():
                plans = every_kernel.plans_of(kernels, kernel, shape, whole=whole)
                assert plans, (kernel["name"], use)
                if use in ("vectors", "pairs"):
                    continue
                for plan in plans:
                    every_kernel.run(kernels, operands, rng, DTYPE, shape, plan)
                    [region] = plan["regions"]
                    ways.add((kernel["loads"], region["cluster"] > 1, region["slices"] > 1))
    for loads in {kernel["loads"] for kernel in manifest["kernels"]}:
        assert (loads, False, False) in ways
    assert {("tma", True, False), ("tma", False, True), ("tma", True, True)} <= ways
