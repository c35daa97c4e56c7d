"""Runs every micro-kernel of the committed set on awkward shapes; the child of test_sanitizer.py.

Each runs with its whole reduction, and shared in a cluster and in slices where it can be. Operands
come from the host, so that no kernels run but ours.
"""

from __future__ import annotations

import json
import sys

import numpy as np
import torch
import tvm_ffi
from tolerances import OPERATOR_REL, rounded_operator_error

from moonpoly import _ffi_api, autotune, planning
from moonpoly.target import Target
from moonpoly.workload import Workload

DTYPE = "float16"
ALIGNED = 8
SHAPES = (
    (65, 129, 72),
    (257, 136, 1032),
    (1, 1009, 520),
    (509, 1, 264),
    (17, 24, 4104),
    (130, 71, 1031),
    (33, 31, 4099),
    (1, 1, 1),
)
EACH = 2


def way_of(region):
    """Whether a launch shares no reduction, one in clusters, or one in slices too."""
    return 2 if region["slices"] > 1 else int(region["cluster"] > 1)


def plans(kernels):
    """Yield layout, shape and plan, so that each kernel runs in each of its ways on two shapes."""
    runs = {}
    for layout in ("nt", "nn"):
        for m, n, k in SHAPES:
            lines = ((m, k), (n, k) if layout == "nt" else (k, n))
            aligned = all(count == 1 or stride % ALIGNED == 0 for count, stride in lines)
            access = "tma" if aligned else "residue"
            if layout == "nn" and min(n, k) == 1:
                continue
            for text in _ffi_api.gpu_enumerate_plans(
                kernels, m, n, k, layout=layout, access=access, overlap=True
            ):
                regions = json.loads(text)["regions"]
                key = regions[0]["kernel"], way_of(regions[0])
                if len(regions) == 1 and len(runs.setdefault(key, [])) < EACH:
                    runs[key].append((layout, (m, n, k), text))
    return runs


def run(kernels, rng, layout, shape, plan):
    m, n, k = shape
    a = rng.uniform(-1, 1, (m, k)).astype(DTYPE)
    b = rng.uniform(-1, 1, (k, n) if layout == "nn" else (n, k)).astype(DTYPE)
    on_gpu = [torch.from_numpy(x).cuda() for x in (a, b, np.full((m, n), np.nan, DTYPE))]
    if layout == "nt":
        b, on_gpu[1] = b.T, on_gpu[1].t()
    _ffi_api.gpu_run_plan(kernels, plan, *map(tvm_ffi.from_dlpack, on_gpu))
    error = rounded_operator_error(on_gpu[2].cpu().numpy(), a, b, DTYPE)
    assert error <= OPERATOR_REL[DTYPE], (shape, layout, plan, error)


def main():
    target, workload = Target.parse("cuda-sm90a"), Workload("gemm", DTYPE)
    names = {k["name"] for k in autotune.load_artifact(target, workload).manifest["kernels"]}
    kernels = planning.gpu_kernel_set(target, workload)
    runs = plans(kernels)
    assert {name for name, _ in runs} == names, names - {name for name, _ in runs}
    rng = np.random.default_rng(0)
    for each in runs.values():
        for layout, shape, plan in each:
            run(kernels, rng, layout, shape, plan)
    launches = sum(map(len, runs.values()))
    sys.stdout.write(f"{len(names)} kernels in {len(runs)} ways, {launches} launches\n")


if __name__ == "__main__":
    main()
