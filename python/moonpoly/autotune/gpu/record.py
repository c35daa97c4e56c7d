"""Record what launches of an artifact's kernels take, in a process of its own.

Of a shape every plan of one region that is not hopeless is launched, overlapping and not. A record
is what ``refit`` and ``choice`` read: the shape, how its operands are read, whether launches
overlap, and of each [kernel, cluster, slices, µs].
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np

from moonpoly.autotune.artifact import read_artifact
from moonpoly.autotune.gpu.operands import Operands
from moonpoly.autotune.gpu.process import GpuProcess
from moonpoly.autotune.gpu.shapes import Shape, access_of
from moonpoly.workload import Workload

Record: TypeAlias = dict[str, Any]

_SAMPLE_US, _MOST_CALLS, _ROUNDS = 120.0, 20, 3


class RecordWorker(GpuProcess):
    """Launches plans of the kernels of one artifact.

    Parameters
    ----------
    folder
        The artifact's.
    num_bytes
        Of the largest operand or result of what will be launched.
    """

    def __init__(self, folder: Path, num_bytes: int) -> None:
        super().__init__()
        self._of = str(folder), num_bytes

    def of_shape(self, shape: Shape, ratio: float) -> list[Record]:
        """Return the records of a shape: launches predicted within ``ratio`` of the least.

        Raises
        ------
        TuneError
            If a launch fails or hangs.
        """
        return self.ask(f"launches of {shape}", _of_shapes, *self._of, [shape], ratio, "")

    def of_kernel(self, kernel: str, shapes: Sequence[Shape], ratio: float) -> list[Record]:
        """Return the records of shapes that one kernel alone is launched on, none overlapping."""
        return self.ask(f"launches of {kernel}", _of_shapes, *self._of, shapes, ratio, kernel)


def _of_shapes(
    folder: str, num_bytes: int, shapes: Sequence[Shape], ratio: float, kernel: str
) -> list[Record]:
    from moonpoly import _ffi_api

    manifest, kernels = kernel_set(folder, kernel)
    operands = _operands(manifest["dtype"], manifest["out_dtype"], num_bytes)
    rows = []
    for shape in shapes:
        plans = near_plans(kernels, shape, manifest["dtype"], ratio, overlap=not kernel)
        if not plans:
            continue
        us = np.from_dlpack(
            _ffi_api.gpu_time_plans(
                kernels,
                [json.dumps(plan) for plan in plans],
                operands.tensors(*shape),
                calls_of(plans),
                _ROUNDS,
                _stream(),
                # One by one, launches that don't overlap lie further apart than in a graph.
                in_graphs=True,
            )
        ).reshape(_ROUNDS, len(plans))
        rows += records_of(plans, np.median(us, axis=0).tolist())
    return rows


@cache
def kernel_set(folder: str, kernel: str = "") -> tuple[dict[str, Any], Any]:
    """Return an artifact's manifest and its kernels ready to run, or those of one kernel alone."""
    from moonpoly import _ffi_api

    artifact = read_artifact(Path(folder))
    entries = [each for each in artifact.manifest["kernels"] if kernel in ("", each["name"])]
    manifest = artifact.manifest | {"kernels": entries}
    images = {name: (artifact.path / name).read_bytes() for name in {e["cubin"] for e in entries}}
    return manifest, _ffi_api.GpuKernelSet(json.dumps(manifest), images)


def near_plans(
    kernels: Any, shape: Shape, dtype: str, ratio: float, *, overlap: bool
) -> list[dict[str, Any]]:
    """Return the plans of one region that are predicted to take within ``ratio`` of the least.

    They are those for contiguous operands; with ``overlap`` some of them overlap.
    """
    from moonpoly import _ffi_api

    access = access_of(shape, dtype)
    texts = _ffi_api.gpu_enumerate_plans(kernels, *shape, access=access, overlap=overlap)
    # Patterns II and III are of two regions.
    plans = [json.loads(text) for text in texts if '"pattern":"II' not in text]
    least_us = min((plan["predicted_us"] for plan in plans), default=0.0)
    return [plan for plan in plans if plan["predicted_us"] <= ratio * least_us]


def calls_of(plans: Sequence[dict[str, Any]]) -> int:
    """Return how many calls of each plan make a sample."""
    least_us = min((plan["predicted_us"] for plan in plans), default=_SAMPLE_US)
    return max(2, min(_MOST_CALLS, round(_SAMPLE_US / least_us)))


def records_of(plans: Sequence[dict[str, Any]], us: Sequence[float]) -> list[Record]:
    """Return the records of a shape's plans: of those that overlap, and of those that don't."""
    records: dict[bool, Record] = {}
    for plan, taken_us in zip(plans, us, strict=True):
        [region] = plan["regions"]
        about = {name: plan[name] for name in ("m", "n", "k", "access", "overlap")}
        record = records.setdefault(plan["overlap"], about | {"launches": []})
        key = region["kernel"], region["cluster"], region["slices"]
        record["launches"].append([*key, round(taken_us, 3)])
    return list(records.values())


@cache
def _operands(dtype: str, out_dtype: str, num_bytes: int) -> Operands:
    return Operands(Workload("gemm", dtype, out_dtype), num_bytes)


@cache
def _stream() -> int:
    from moonpoly import _ffi_api

    return int(_ffi_api.gpu_create_stream(0))
