"""The GPU launcher with every type of operand and result, against a driver that the host plays."""

from __future__ import annotations

import json

import numpy as np
import pytest
import tvm_ffi
from gpu_runtime import fake_gpu
from gpu_runtime.fake_gpu import OnGpu, aligned
from tolerances import OPERATOR_REL, ROUNDING_REL

import moonpoly
from moonpoly import _ffi_api
from moonpoly.error import InputError
from moonpoly.planning import product
from moonpoly.workload import OUTPUTS

PAIRS = [(item, out) for item, outs in OUTPUTS.items() if item != "float32" for out in outs]
SHAPES = [(1, 1, 1), (64, 32, 128), (63, 31, 16), (65, 33, 144), (7, 129, 48), (130, 5, 300)]


def kernel_set(item, out):
    kind = {"types": (item, out)}
    kernels = (
        fake_gpu.kernel(64, 32, **kind),
        fake_gpu.kernel(16, 64, swapped=True, **kind),
        fake_gpu.kernel(64, 32, cluster=(2, 1), **kind),
        fake_gpu.kernel(64, 24, split=True, **kind),
        fake_gpu.kernel(32, 64, loads="strided", split=True, swapped=True, **kind),
        fake_gpu.kernel(64, 64, loads="strided", **kind),
    )
    return _ffi_api.GpuKernelSet(*fake_gpu.artifact(*kernels, dtype=item, out_dtype=out))


@pytest.fixture(scope="module", params=PAIRS, ids=map(":".join, PAIRS))
def types(request):
    return request.param


@pytest.fixture(scope="module")
def kernels(fake_driver, types):
    return kernel_set(*types)


def random(rng, shape, item, offset=0, gap=0):
    """Return random values, rows ``gap`` items apart, that begin ``offset`` items late."""
    whole = aligned((shape[0], shape[1] + gap), 0, offset, item)
    values = rng.integers(-128, 128, shape) if item == "int8" else rng.uniform(-1, 1, shape)
    whole[:, : shape[1]] = values
    if item == "tf32":
        # What tensor cores read of it: those values exactly.
        whole.view(np.uint32)[...] &= 0xFFFFE000
    return whole[:, : shape[1]]


def close_to(c, a, b):
    a64, b64 = a.astype(np.float64), b.astype(np.float64)
    exact, size = a64 @ b64, np.abs(a64) @ np.abs(b64)
    got = c.astype(np.float64)
    if c.dtype == np.int32:
        assert (got == exact).all()
        return
    rounding = ROUNDING_REL[c.dtype.name] * np.abs(exact)
    least = 2.0**-25 if c.dtype == np.float16 else 0.0
    assert (np.abs(got - exact) <= rounding + least + OPERATOR_REL["float16"] * size).all()


def run(kernels, a, b, c, plan=None):
    tensors = [tvm_ffi.from_dlpack(OnGpu(x)) for x in (a, b, c)]
    if plan is None:
        _ffi_api.gpu_gemm(kernels, *tensors, True)
    else:
        _ffi_api.gpu_run_plan(kernels, plan, *tensors)


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_every_plan_of_one_region_computes_the_product(kernels, rng, types, shape):
    item, out = types
    m, n, k = shape
    step = 16 // fake_gpu.numpy_type(item).itemsize
    a, b = (random(rng, (rows, k), item, gap=-k % step) for rows in (m, n))
    access = "tma" if max(m, n) == 1 or k >= 16 else "strided"
    for plan in _ffi_api.gpu_enumerate_plans(kernels, m, n, k, access=access):
        guarded = aligned((m, n + 16), 77, dtype=out)
        if json.loads(plan)["access"] == access and len(json.loads(plan)["regions"]) == 1:
            run(kernels, a, b.T, guarded[:, :n], plan)
            close_to(guarded[:, :n], a, b.T)
            assert (guarded[:, n:] == 77).all()


def test_every_layout_alignment_and_zero_size(kernels, rng, types):
    item, out = types
    for m, n, k, offset in [(33, 17, 40, 0), (9, 5, 77, 3), (64, 64, 128, 1), (5, 7, 0, 0)]:
        for turned_a in (False, True):
            for turned_b in (False, True):
                a = random(rng, (k, m) if turned_a else (m, k), item, offset)
                b = random(rng, (n, k) if turned_b else (k, n), item, offset)
                a, b = (a.T if turned_a else a), (b.T if turned_b else b)
                c = aligned((m, n), 77, offset, out)
                run(kernels, a, b, c)
                close_to(c, a, b)


def test_vectors_of_c_are_of_16_bytes_at_most(kernels, fake_driver, rng, types):
    item, out = types
    widest = 16 // fake_gpu.numpy_type(out).itemsize
    for offset, n, vector in [(0, 32, widest), (2, 32, 2), (1, 32, 1), (0, 31, 1), (0, 30, 2)]:
        a, b = random(rng, (64, 128), item), random(rng, (n, 128), item)
        fake_driver.fake_log()
        run(kernels, a, b.T, aligned((64, n), 0, offset, out))
        assert f"vector={vector} " in fake_driver.fake_log().decode()


def test_rows_of_16_bytes_are_read_by_maps(kernels, fake_driver, rng, types):
    item, out = types
    step = 16 // fake_gpu.numpy_type(item).itemsize
    for k, symbol in ((5 * step, b"tma"), (5 * step + step // 2, b"strided")):
        a, b = random(rng, (40, k), item), random(rng, (24, k), item)
        fake_driver.fake_log()
        run(kernels, a, b.T, aligned((40, 24), 0, dtype=out))
        assert fake_driver.fake_log().startswith(symbol)


def test_bytes_that_start_anywhere_go_to_direct_kernels(fake_driver, rng):
    kind = {"types": ("int8", "int32")}
    ways = (("tma", False), ("residue", False), ("direct", True), ("strided", False))
    made = [fake_gpu.kernel(32, 16, loads=loads, split=split, **kind) for loads, split in ways]
    kernels = _ffi_api.GpuKernelSet(
        *fake_gpu.artifact(*made, dtype=kind["types"][0], out_dtype=kind["types"][1])
    )
    for k, offset, gap in ((77, 0, 0), (64, 3, 1), (31, 1, 8)):
        a, b = random(rng, (40, k), "int8", offset, gap), random(rng, (24, k), "int8", 0, gap)
        c = aligned((40, 24), 77, dtype="int32")
        fake_driver.fake_log()
        run(kernels, a, b.T, c)
        close_to(c, a, b.T)
        # Another layout is for plain loads alone.
        assert fake_driver.fake_log().startswith(b"direct")
        run(kernels, a, np.ascontiguousarray(b.T), c)
        close_to(c, a, b.T)
        assert fake_driver.fake_log().startswith(b"strided")


def test_kernels_without_maps_serve_the_same_operands(fake_driver, rng, types):
    item, out = types
    kind = {"types": (item, out)}
    both = [fake_gpu.kernel(64, 32, loads=loads, **kind) for loads in ("async", "strided")]
    kernels = _ffi_api.GpuKernelSet(*fake_gpu.artifact(*both, dtype=item, out_dtype=out))
    step = 16 // fake_gpu.numpy_type(item).itemsize
    for m, n, k, symbol in ((70, 33, 4 * step, b"async"), (70, 33, 4 * step + 1, b"strided")):
        a, b = random(rng, (m, k), item), random(rng, (n, k), item)
        c = aligned((m, n), dtype=out, fill=0)
        fake_driver.fake_log()
        run(kernels, a, b.T, c)
        close_to(c, a, b.T)
        assert fake_driver.fake_log().startswith(symbol)


def test_types_that_do_not_fit_are_refused(kernels, rng, types):
    item, out = types
    a, c = random(rng, (8, 16), item), aligned((8, 8), 0, dtype=out)
    wrong = aligned((16, 8), 0, dtype="int32")
    with pytest.raises(TypeError, match="B must be"):
        run(kernels, a, wrong, c)
    with pytest.raises(TypeError, match="C must be"):
        run(kernels, a, random(rng, (16, 8), item), aligned((8, 8), 0, dtype="int8"))


def test_no_kernel_set_is_made_of_types_that_no_kernel_computes():
    for item, out, message in [
        ("int8", "float32", "no micro-kernel of int8 gives float32"),
        ("float16", "int32", "no micro-kernel of float16 gives int32"),
        ("float64", "float64", "expected float16, bfloat16, tf32"),
    ]:
        with pytest.raises(ValueError, match=message):
            _ffi_api.GpuKernelSet(
                *fake_gpu.artifact(fake_gpu.kernel(64, 32), dtype=item, out_dtype=out)
            )


def test_float32_is_rounded_to_tf32_only_when_asked(fake_driver, rng, monkeypatch):
    asked = []

    def sets(_target, workload):
        asked.append(workload.key)
        return kernel_set(workload.dtype, workload.out_dtype)

    monkeypatch.setattr(product, "gpu_kernel_set", sets)
    product._kernels.cache_clear()
    a, b = random(rng, (40, 72), "tf32"), random(rng, (24, 72), "tf32")
    c = aligned((40, 24), dtype="float32")
    with pytest.raises(InputError, match="allow_tf32=True"):
        moonpoly.matmul(OnGpu(a), OnGpu(b.T), OnGpu(c))
    moonpoly.matmul(OnGpu(a), OnGpu(b.T), OnGpu(c), allow_tf32=True)
    close_to(c, a, b.T)
    half = aligned((40, 72), 0.5), aligned((72, 24), 0.25)
    moonpoly.matmul(*map(OnGpu, half), OnGpu(c))
    assert (c == 9.0).all()
    assert asked == ["gemm_tf32", "gemm_float16_to_float32"]
    with pytest.raises(InputError, match="int8 is int32, not float32"):
        moonpoly.matmul(*(OnGpu(aligned((8, 8), 1, dtype="int8")) for _ in "ab"), OnGpu(c))
    product._kernels.cache_clear()
