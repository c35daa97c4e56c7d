"""Runs the micro-kernels of one image of an artifact, small; the child of test_sanitizer.py.

Tools that watch every access of shared memory are some thousand times slower than the GPU. So the
manifest is changed to a GPU of a few multiprocessors and rings of a few slots: blocks go on from
tile to tile and rings wrap around in a product of six tiles. Each kernel runs in every way it has:
whole with rows of C that take vectors, pairs and single elements; shared in a cluster, in slices,
and in both. Only the driver and this project's library are loaded, so that nothing else runs.

Usage: every_kernel.py ARTIFACT_FOLDER IMAGE [--no-multicast]
"""

from __future__ import annotations

import ctypes
import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import tvm_ffi
from gpu_runtime.fake_gpu import OnGpu, numpy_type
from tolerances import OPERATOR_REL, rounded_operator_error

from moonpoly import _ffi_api
from moonpoly.gpu_driver import Device

MULTIPROCESSORS, SLOTS, MOST_PARTS = 2, 3, 8
# So many steps of the reduction wrap a ring around twice, in each of eight parts of a shared one.
WHOLE_STEPS, SHARED_STEPS = 7, 56
STEP_BYTES, ALIGNED_BYTES, MOST_RESIDUES = 128, 16, 8
ROOM_BYTES = 16 << 20


class Operands:
    """Room on the GPU for one product's."""

    def __init__(self) -> None:
        self._device = Device()
        self._starts = [self._device.allocate(ROOM_BYTES) for _ in "abc"]

    def put(self, array: np.ndarray, which: int) -> OnGpu:
        """Copy an array to the GPU and return it as a tensor there."""
        assert array.nbytes <= ROOM_BYTES
        self._device.write(self._starts[which], array.tobytes())
        there = (ctypes.c_char * array.nbytes).from_address(self._starts[which])
        return OnGpu(np.ndarray(array.shape, array.dtype, there))

    def get(self, like: np.ndarray, which: int) -> np.ndarray:
        """Return what an array of that shape and type is now, after all work."""
        data = self._device.read(self._starts[which], like.nbytes)
        return np.frombuffer(data, like.dtype).reshape(like.shape)


def shrunk(manifest: dict, kernel: dict, *, whole: bool) -> str:
    """Return the manifest of one kernel on a GPU that is soon full, with a ring that soon is.

    Reductions are shared only where there are multiprocessors for the parts.
    """
    count = MULTIPROCESSORS if whole else MULTIPROCESSORS * MOST_PARTS
    machine = manifest["machine"] | {
        "num_sms": count,
        "cluster_slots": [max(1, count >> i) for i in range(4)],
    }
    one = dict(kernel)
    if "ring" in kernel:
        one["ring"] = kernel["ring"] | {"slots": min(SLOTS, kernel["ring"]["slots"])}
    return json.dumps(manifest | {"machine": machine, "kernels": [one]})


def shapes_of(kernel: dict, dtype: str, *, whole: bool) -> dict[str, tuple[int, int, int]]:
    """Return shapes of a few ragged tiles by what they are for."""
    loads, um, un = kernel["loads"], kernel["um"], kernel["un"]
    item_bytes = numpy_type(dtype).itemsize
    # Rows that start anywhere, where a kernel reads such; by tensor maps an even number of bytes
    # apart.
    short = {"residue": 6 if item_bytes == 1 else 3, "direct": 3, "strided": 5}.get(loads, 0)
    steps = WHOLE_STEPS if whole else SHARED_STEPS
    k = (steps * STEP_BYTES + ALIGNED_BYTES) // item_bytes - short
    if loads == "gemv":
        m, n = (1 if side == 1 else side * 2 + 8 for side in (um, un))
        return {"vector": (m, n, k)}
    if not whole:
        return {"shared": (um + 1, un, k)} if kernel["split"] else {}
    p, q = kernel["cluster_p"], kernel["cluster_q"]
    along_m, along_n = (q, p) if kernel["swapped"] else (p, q)
    m, n = um * along_m * 2 + 1, un * along_n
    columns = {"vectors": n + 8, "pairs": n + 6, "elements": n + 1}
    return {name: (m, each, k) for name, each in columns.items()}


def access_of(strides: tuple[int, ...], dtype: str) -> str:
    """Return the most particular way to read rows so many items apart."""
    aligned = ALIGNED_BYTES // numpy_type(dtype).itemsize
    residues = min(aligned, MOST_RESIDUES)
    ways = ("tma", "residue", "direct")
    return ways[
        max((stride % aligned > 0) + (stride * residues % aligned > 0) for stride in strides)
    ]


def plans_of(
    kernels: object, kernel: dict, dtype: str, shape: tuple[int, int, int], *, whole: bool
) -> list[dict]:
    """Return the plan of a whole reduction, or one for each way to share it."""
    m, n, k = shape
    layout = "nn" if kernel["loads"] == "strided" else "nt"
    strides = (k, k) if layout == "nt" else (k, n)
    access = "tma" if min(m, n) == max(m, n) == 1 else access_of(strides, dtype)
    texts = _ffi_api.gpu_enumerate_plans(kernels, *shape, layout=layout, access=access)
    ways: dict[tuple[bool, bool], dict] = {}
    # Clusters as large as they are; with slices small ones.
    for plan in sorted(map(json.loads, texts), key=lambda p: -p["regions"][0]["blocks"]):
        region = plan["regions"][0]
        if len(plan["regions"]) == 1 and region["cluster"] * region["slices"] <= MOST_PARTS:
            ways.setdefault((region["cluster"] > 1, region["slices"] > 1), plan)
    alone = ways.pop((False, False), None)
    return [alone] if whole else list(ways.values())


def draw(rng: np.random.Generator, dtype: str, shape: tuple[int, int]) -> np.ndarray:
    """Return random items as the tensor cores read them."""
    if dtype == "int8":
        return rng.integers(-128, 128, shape, np.int8)
    values = rng.uniform(-1, 1, shape).astype(numpy_type(dtype))
    if dtype == "tf32":
        values.view(np.uint32)[...] &= 0xFFFFE000
    return values


def run(kernels: object, operands: Any, rng, types: tuple[str, str], shape, plan: dict) -> None:
    """Run a plan and compare it with NumPy's product."""
    (m, n, k), (dtype, out_dtype) = shape, types
    nt = plan["layout"] == "nt"
    a, b = draw(rng, dtype, (m, k)), draw(rng, dtype, (n, k) if nt else (k, n))
    poison = -(2**31) if out_dtype == "int32" else np.nan
    c = np.full((m, n), poison).astype(numpy_type(out_dtype))
    on_gpu = [operands.put(each, i) for i, each in enumerate((a, b, c))]
    if nt:
        b, on_gpu[1] = b.T, OnGpu(on_gpu[1].array.T)
    _ffi_api.gpu_run_plan(kernels, json.dumps(plan), *map(tvm_ffi.from_dlpack, on_gpu))
    found = operands.get(c, 2)
    if out_dtype == "int32":
        assert (found == a.astype(np.int64) @ b.astype(np.int64)).all(), (shape, plan)
        return
    error = rounded_operator_error(found, a, b, out_dtype)
    assert error <= OPERATOR_REL[dtype], (shape, plan, error)


def main(folder: Path, image: str, *options: str) -> None:
    manifest = json.loads((folder / "manifest.json").read_text())
    types, code = (manifest["dtype"], manifest["out_dtype"]), (folder / image).read_bytes()
    operands, rng = Operands(), np.random.default_rng(0)
    for kernel in manifest["kernels"]:
        multicast = kernel["cluster_p"] * kernel["cluster_q"] > 1
        if kernel["cubin"] != image or (multicast and "--no-multicast" in options):
            continue
        for whole in (True, False):
            kernels = _ffi_api.GpuKernelSet(shrunk(manifest, kernel, whole=whole), {image: code})
            for use, shape in shapes_of(kernel, types[0], whole=whole).items():
                for plan in plans_of(kernels, kernel, types[0], shape, whole=whole):
                    [region] = plan["regions"]
                    ways = f"{region['cluster']}x{region['slices']}, {region['blocks']} blocks"
                    # Before it runs: what runs when the time is over is the last line.
                    sys.stdout.write(f"run {kernel['name']} {use} {shape} {ways}\n")
                    sys.stdout.flush()
                    run(kernels, operands, rng, types, shape, plan)
    sys.stdout.write("done\n")


if __name__ == "__main__":
    main(Path(sys.argv[1]), *sys.argv[2:])
