"""Plans: how the selector cuts one problem shape into regions of micro-kernels."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from enum import StrEnum
from functools import lru_cache
from typing import Any

from moonpoly import config
from moonpoly.error import InputError
from moonpoly.target import Target
from moonpoly.tir_templates.items import contiguous_access
from moonpoly.workload import Workload

# "…_12x32" on a CPU; on a GPU the step of k and the pipeline follow.
_TILE = re.compile(r"_(\d+)x(\d+)(?:x\d+)?(?:_|$)")


class BMode(StrEnum):
    """How B arrives: packed at compile time, or at run time as rows or as columns."""

    CONSTANT = "constant"
    ROW = "row"
    TRANSPOSED = "transposed"


# The selector's numbers.
_B_MODE_NUMBERS = {BMode.CONSTANT: 0, BMode.ROW: 1, BMode.TRANSPOSED: 2}


@dataclass(frozen=True)
class Region:
    """A block ``[m0, m1) x [n0, n1)`` of the output, and a slice ``[k0, k1)`` of the reduction.

    Parameters
    ----------
    tasks
        Tiles in the region.
    waves
        Rounds that the tasks need over all processing units.
    task_us
        Predicted latency of one task, in µs.
    cluster, slices
        On a GPU: blocks of a cluster, and clusters, that share the reduction of one tile.
    """

    m0: int
    m1: int
    n0: int
    n1: int
    k0: int
    k1: int
    kernel: str
    tasks: int
    waves: float
    task_us: float
    cluster: int = 1
    slices: int = 1

    @property
    def tile(self) -> tuple[int, int]:
        """Rows and columns of the micro-kernel's tile; its name is its contract."""
        match = _TILE.search(self.kernel)
        if match is None:
            raise ValueError(f"micro-kernel {self.kernel!r} states no tile in its name")
        return int(match[1]), int(match[2])


@dataclass(frozen=True)
class Plan:
    """The chosen pattern, cuts and micro-kernels of one problem shape.

    Parameters
    ----------
    threads, unit
        What works on it at once: threads of a CPU or blocks of a GPU, as ``unit`` says.
    """

    m: int
    n: int
    k: int
    pattern: str
    threads: int
    predicted_us: float
    regions: tuple[Region, ...]
    unit: str = "thread"

    @staticmethod
    def from_json(text: str) -> Plan:
        """Parse the selector's JSON."""
        raw: dict[str, Any] = json.loads(text)
        names = Region.__dataclass_fields__
        regions = tuple(
            Region(**{name: item[name] for name in names if name in item})
            for item in raw["regions"]
        )
        return Plan(
            m=raw["m"],
            n=raw["n"],
            k=raw["k"],
            pattern=str(raw["pattern"]),
            threads=raw["threads"],
            predicted_us=raw["predicted_us"],
            regions=regions,
            unit=str(raw.get("unit", "thread")),
        )

    @property
    def gflops(self) -> float:
        """Predicted speed in GFLOP/s."""
        return 2.0 * self.m * self.n * self.k / max(self.predicted_us, 1e-9) / 1e3

    def __str__(self) -> str:
        kernels = " + ".join(
            f"{'x'.join(map(str, region.tile))} [{region.m1 - region.m0}x{region.n1 - region.n0}]"
            for region in self.regions
        )
        return f"{self.m}x{self.n}x{self.k}: pattern {self.pattern}, {kernels}"


def plan(
    m: int,
    n: int,
    k: int,
    *,
    b: str = "constant",
    dtype: str | None = None,
    target: Target | str = "host",
    threads: int | None = None,
) -> Plan:
    """Return the plan that the selector makes for ``C[m, n] = A[m, k] @ B[k, n]``.

    Parameters
    ----------
    b
        ``"constant"`` (packed at compile time), ``"row"`` or ``"transposed"`` (given at run time).
        For a GPU a constant is transposed, not packed.
    dtype
        Of A and B: ``"float32"``, or ``"float16"`` for a GPU, when None. For a GPU also
        ``"bfloat16"``, ``"tf32"``, ``"float8_e4m3fn"`` and ``"int8"``.
    target
        What to plan for. A plan for a GPU needs none in this machine.
    threads
        Threads to plan for; those of the process when None.

    Raises
    ------
    InputError
        If an extent is less than one, or ``b`` is none of the three.
    TargetError
        If the target is unknown or this machine can't run it.
    ArtifactError
        If the target's artifact is damaged.
    """
    from moonpoly import _ffi_api

    for name, extent in (("M", m), ("N", n), ("K", k)):
        if extent < 1:
            raise InputError(f"{name} must be at least 1, got {extent}")
    if b not in list(BMode):
        raise InputError(f"B must be one of {', '.join(BMode)}, got {b!r}")
    if threads is not None and threads < 1:
        raise InputError(f"threads must be at least 1, got {threads}")
    resolved = Target.parse(target) if isinstance(target, str) else target
    if resolved.kind == "cuda":
        workload = Workload("gemm", dtype or "float16")
        kernels = _gpu_planner(resolved, workload)
        return Plan.from_json(
            _ffi_api.gpu_plan(
                kernels,
                m,
                n,
                k,
                layout="nn" if b == BMode.ROW else "nt",
                access=contiguous_access(k, resolved.vector_lanes[workload.dtype]),
            )
        )
    kernel_set = _kernel_set(resolved, Workload("gemm", dtype or "float32"))
    count = threads if threads is not None else config.num_threads()
    return Plan.from_json(_ffi_api.plan(kernel_set, m, n, k, _B_MODE_NUMBERS[BMode(b)], count))


@lru_cache(maxsize=8)
def _kernel_set(target: Target, workload: Workload) -> Any:
    import tvm_ffi

    from moonpoly import _ffi_api, autotune

    target.require_host()
    artifact = autotune.load_artifact(target, workload)
    return _ffi_api.KernelSet(json.dumps(artifact.manifest), tvm_ffi.load_module(artifact.lib_path))


@lru_cache(maxsize=8)
def _gpu_planner(target: Target, workload: Workload) -> Any:
    from moonpoly import _ffi_api
    from moonpoly.autotune.gpu.outline import planning_manifest

    return _ffi_api.GpuKernelSet(json.dumps(planning_manifest(target, workload)), {})


@lru_cache(maxsize=8)
def gpu_kernel_set(target: Target, workload: Workload) -> Any:
    """Return the kernel set of a GPU's artifact, to run where the GPU is.

    Raises
    ------
    ArtifactError
        If the target's artifact is damaged.
    """
    from moonpoly import _ffi_api, autotune

    artifact = autotune.load_artifact(target, workload)
    names = {kernel["cubin"] for kernel in artifact.manifest["kernels"]}
    images = {name: (artifact.path / name).read_bytes() for name in names}
    return _ffi_api.GpuKernelSet(json.dumps(artifact.manifest), images)
