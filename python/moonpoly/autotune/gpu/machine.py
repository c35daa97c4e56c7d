"""Measured constants of a GPU that plans are made with."""

from __future__ import annotations

from dataclasses import dataclass

from moonpoly.autotune.gpu.compile import Kernel
from moonpoly.autotune.gpu.cost_model import CLUSTERS
from moonpoly.autotune.gpu.launch import OPERAND_BYTES, Launch, bench
from moonpoly.gpu_driver import capability
from moonpoly.tir_templates.items import ITEMS

_CALLS, _REPLAYS = 40, 5
# A product that moves little. One that streams from memory, and one from the second cache, have as
# many tiles as fill whole waves.
_SMALL = (64, 64, 64)
_STREAMED_WAVES, _STREAMED_K = 4, 4096
_CACHED_WAVES, _CACHED_K = 1, 2048


@dataclass(frozen=True)
class GpuConstants:
    """What a plan's cost is made of besides its launches.

    Parameters
    ----------
    num_sms
        Multiprocessors.
    launch_us
        A launch of next to nothing, the gap to the next included.
    overlap_us
        What of it is hidden when launches overlap.
    overlap_limit_us
        Longer kernels don't gain by it.
    l2_bytes, l2_gbs, dram_gbs
        The second cache, and how fast it and the memory behind are read, in GB/s.
    lone_bytes
        Shared memory of a block that leaves none for a second one on its multiprocessor; 0 where
        launches don't overlap.
    cluster_slots
        Clusters of 1, 2, 4 and 8 blocks that the GPU holds at once, such a block on each
        multiprocessor.
    """

    num_sms: int
    launch_us: float
    overlap_us: float
    overlap_limit_us: float
    l2_bytes: float
    l2_gbs: float
    dram_gbs: float
    lone_bytes: int
    cluster_slots: tuple[int, ...]


def measure_gpu(dtype: str, kernel: Kernel, image: bytes) -> GpuConstants:
    """Measure the constants with one kernel of a small tile; run in the process with the GPU."""
    on = bench(dtype)
    function, slots = on.load(kernel, image)

    def us(shape: tuple[int, int, int], *, overlap: bool = False) -> float:
        one = on.launcher(kernel, function, slots, Launch(*shape), overlap=overlap)
        return on.device.graph_us(one, _CALLS, _REPLAYS)

    def rate(waves: int, k: int) -> float:
        un, row_bytes = kernel.program.config.un, ITEMS[dtype].bytes * k
        n = min(waves * slots, OPERAND_BYTES // row_bytes // un) * un
        return round(ITEMS[dtype].bytes * n * k / 1e3 / max(us((64, n, k)) - small, 0.1), 0)

    # Before Hopper no launch can overlap the one before it.
    overlaps = int(capability() or 0) >= 90
    small = us(_SMALL)
    lone_bytes, config = on.device.shared_bytes // 2, kernel.program.config
    overlapped = us(_SMALL, overlap=True) if overlaps else small
    return GpuConstants(
        num_sms=on.device.num_sms,
        launch_us=round(small, 3),
        overlap_us=round(max(small - overlapped, 0.01), 3),
        overlap_limit_us=40.0 if overlaps else 1e-3,
        l2_bytes=float(on.device.l2_bytes),
        l2_gbs=rate(_CACHED_WAVES, _CACHED_K),
        dram_gbs=rate(_STREAMED_WAVES, _STREAMED_K),
        lone_bytes=lone_bytes if overlaps else 0,
        cluster_slots=tuple(
            on.device.resident_clusters(function, cluster, config.threads, lone_bytes)
            if overlaps
            else on.device.num_sms // cluster
            for cluster in CLUSTERS
        ),
    )
