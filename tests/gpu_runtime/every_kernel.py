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

import numpy as np
import tvm_ffi
from gpu_runtime.fake_gpu import OnGpu, numpy_type
from tolerances import OPERATOR_REL, rounded_operator_error

from moonpoly import _ffi_api
from moonpoly.gpu_driver import Device

MULTIPROCESSORS, SLOTS, MOST_PARTS = 2, 3, 8
STEP = 64
# So many steps of the reduction wrap a ring around twice, in each of eight parts of a shared one.
WHOLE_K, SHARED_K = 7 * STEP + 8, 56 * STEP + 8
ROOM_BYTES = 16 << 20


class Operands:
    """Room on the GPU for one product's."""

    def __init__(self, dtype: str) -> None:
        self._device = Device()
        self._dtype = numpy_type(dtype)
        self._starts = [self._device.allocate(ROOM_BYTES) for _ in "abc"]

    def put(self, array: np.ndarray, which: int) -> object:
        """Copy an array to the GPU and return it as a tensor there."""
        data = array.astype(self._dtype)
        assert data.nbytes <= ROOM_BYTES
        self._device.write(self._starts[which], data.tobytes())
        there = (ctypes.c_char * data.nbytes).from_address(self._starts[which])
        return OnGpu(np.ndarray(data.shape, self._dtype, there))

    def result(self, m: int, n: int) -> np.ndarray:
        """Return C, after all work."""
        data = self._device.read(self._starts[2], m * n * self._dtype.itemsize)
        return np.frombuffer(data, self._dtype).reshape(m, n)


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


def shapes_of(kernel: dict, *, whole: bool) -> dict[str, tuple[int, int, int]]:
    """Return shapes of a few ragged tiles by what they are for."""
    loads, um, un = kernel["loads"], kernel["um"], kernel["un"]
    # Rows that start anywhere, where a kernel reads such.
    over = {"residue": -3, "direct": -3, "strided": -5}.get(loads, 0)
    k = (WHOLE_K if whole else SHARED_K) + over
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


def plans_of(kernels: object, kernel: dict, shape: tuple[int, int, int], *, whole: bool) -> list:
    """Return the plan of a whole reduction, or one for each way to share it."""
    access = "residue" if kernel["loads"] in ("residue", "direct", "strided") else "tma"
    layout = "nn" if kernel["loads"] == "strided" else "nt"
    texts = _ffi_api.gpu_enumerate_plans(kernels, *shape, layout=layout, access=access)
    ways: dict[tuple[bool, bool], dict] = {}
    # Clusters as large as they are; with slices small ones.
    for plan in sorted(map(json.loads, texts), key=lambda p: -p["regions"][0]["blocks"]):
        region = plan["regions"][0]
        if len(plan["regions"]) == 1 and region["cluster"] * region["slices"] <= MOST_PARTS:
            ways.setdefault((region["cluster"] > 1, region["slices"] > 1), plan)
    alone = ways.pop((False, False), None)
    return [alone] if whole else list(ways.values())


def run(kernels: object, operands: Operands, rng, dtype: str, shape, plan: dict) -> None:
    """Run a plan and compare it with NumPy's product."""
    m, n, k = shape
    nt = plan["layout"] == "nt"
    a, b = (
        rng.uniform(-1, 1, extents).astype(numpy_type(dtype))
        for extents in ((m, k), (n, k) if nt else (k, n))
    )
    on_gpu = [operands.put(each, i) for i, each in enumerate((a, b, np.full((m, n), np.nan)))]
    if nt:
        b, on_gpu[1] = b.T, OnGpu(on_gpu[1].array.T)
    _ffi_api.gpu_run_plan(kernels, json.dumps(plan), *map(tvm_ffi.from_dlpack, on_gpu))
    error = rounded_operator_error(operands.result(m, n), a, b, dtype)
    assert error <= OPERATOR_REL[dtype], (shape, plan, error)


def main(folder: Path, image: str, *options: str) -> None:
    manifest = json.loads((folder / "manifest.json").read_text())
    dtype, code = manifest["dtype"], (folder / image).read_bytes()
    operands, rng = Operands(dtype), np.random.default_rng(0)
    for kernel in manifest["kernels"]:
        multicast = kernel["cluster_p"] * kernel["cluster_q"] > 1
        if kernel["cubin"] != image or (multicast and "--no-multicast" in options):
            continue
        for whole in (True, False):
            kernels = _ffi_api.GpuKernelSet(shrunk(manifest, kernel, whole=whole), {image: code})
            for use, shape in shapes_of(kernel, whole=whole).items():
                for plan in plans_of(kernels, kernel, shape, whole=whole):
                    [region] = plan["regions"]
                    ways = f"{region['cluster']}x{region['slices']}, {region['blocks']} blocks"
                    # Before it runs: what runs when the time is over is the last line.
                    sys.stdout.write(f"run {kernel['name']} {use} {shape} {ways}\n")
                    sys.stdout.flush()
                    run(kernels, operands, rng, dtype, shape, plan)
    sys.stdout.write("done\n")


if __name__ == "__main__":
    main(Path(sys.argv[1]), *sys.argv[2:])
