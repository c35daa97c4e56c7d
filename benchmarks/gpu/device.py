"""The GPU, its facts, and the kernels that the benchmarks there run."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from ..peer import EXTRA, BenchmarkError
from .report import Ceiling
from .types import Types, multiplier


@dataclass(frozen=True)
class Kernels:
    """A loaded kernel set and what its manifest says."""

    handle: Any
    manifest: dict[str, Any]

    @property
    def types(self) -> Types:
        """What A, B and C hold."""
        return Types.of(self.manifest)

    def describe(self) -> dict[str, str]:
        """The artifact as printable pairs."""
        return {
            "target": str(self.manifest["target"]["name"]),
            "kernels": f"{len(self.manifest['kernels'])}, {self.manifest['dtype']} to "
            f"{self.manifest['out_dtype']}",
            "artifact": str(self.manifest.get("digest", "unknown"))[:12],
        }


def load_kernels(target: str, dtype: str, out_dtype: str = "", *, run: bool = True) -> Kernels:
    """Load the artifact of a GPU target; without `run` no GPU is needed.

    Raises
    ------
    BenchmarkError
        If `run` and there is no GPU, or torch can't use it.
    """
    from moonpoly import _ffi_api, autotune, planning
    from moonpoly.target import Target
    from moonpoly.workload import Workload

    resolved, workload = Target.parse(target), Workload("gemm", dtype, out_dtype)
    if not run:
        from moonpoly.autotune.gpu.outline import planning_manifest

        outline = planning_manifest(resolved, workload)
        return Kernels(_ffi_api.GpuKernelSet(json.dumps(outline), {}), outline)
    _require_gpu()
    manifest = autotune.load_artifact(resolved, workload).manifest
    return Kernels(planning.gpu_kernel_set(resolved, workload), manifest)


def facts(lt_version: str = "") -> dict[str, str]:
    """Describe the GPU and the versions that take part, cuBLASLt's where it does."""
    import torch

    from moonpoly import _ffi_api, config

    properties = torch.cuda.get_device_properties(0)
    return {
        "gpu": str(_ffi_api.gpu_name(0)),
        "multiprocessors": str(_ffi_api.gpu_num_sms(0)),
        "memory": f"{properties.total_memory / 2**30:.0f} GiB",
        "l2": f"{properties.L2_cache_size / 2**20:.0f} MiB",
        "cpu": config.cpu_name(),
        "versions": f"moonpoly {config.package_version()}, torch {torch.__version__}, CUDA "
        f"{torch.version.cuda}" + f", cuBLASLt {lt_version}" * bool(lt_version),
    }


def measure_ceiling(types: Types) -> Ceiling:
    """Time a large product through cuBLAS and a large copy."""
    import torch

    def best_us(call: Any) -> float:
        times = []
        for _ in range(7):
            start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            start.record()
            call()
            end.record()
            end.synchronize()
            times.append(start.elapsed_time(end) * 1e3)
        return min(times)

    side = 8192
    a, b, c = (
        types.empty(side * side, output=of_c).view(side, side) for of_c in (False, False, True)
    )
    for operand in (a, b):
        types.fill(operand, torch.Generator(device="cuda").manual_seed(0))
    multiply = multiplier(types)
    product_us = best_us(lambda: multiply(a, b.t(), c))
    source = torch.empty(1 << 30, dtype=torch.uint8, device="cuda")
    target = torch.empty_like(source)
    copy_us = best_us(lambda: target.copy_(source))
    return Ceiling(2 * side**3 / product_us / 1e6, 2 * source.numel() / copy_us / 1e3, types)


def _require_gpu() -> None:
    try:
        import torch
    except ImportError as error:
        raise BenchmarkError(f"torch is not installed; run: {EXTRA}") from error
    if not torch.cuda.is_available():
        raise BenchmarkError("no GPU that torch can use; run on a machine with one")
