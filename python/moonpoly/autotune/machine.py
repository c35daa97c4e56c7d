"""Constants of the machine that plans depend on besides the tasks: measured, never assumed."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import tvm_ffi

from moonpoly import _ffi_api
from moonpoly.autotune.launcher import Launcher

_REPEATS = 5
_ROUNDS = 7
_PACK_K, _PACK_N = 512, 512
# Source and sink together are larger than a core's own caches, where copies of regions lie.
_COPY_ITEMS = 1 << 20
_ITEM_BYTES = 4
_KILOBYTE = 1024


@dataclass(frozen=True)
class MachineConstants:
    """What a manifest's ``machine`` holds.

    Parameters
    ----------
    launch_us
        Starting work on all processing units and waiting for them.
    call_us
        A region on one processing unit that computes next to nothing.
    pack_us_per_kb, copy_us_per_kb
        Packing a row-major B into panels within a core's own cache, and copying through the last
        cache, on one processing unit.
    """

    launch_us: float
    call_us: float
    pack_us_per_kb: float
    copy_us_per_kb: float


def measure_machine(launcher: Launcher, lanes: int) -> MachineConstants:
    """Measure the constants of this machine; takes about a second.

    Parameters
    ----------
    launcher
        Holds the micro-kernels.
    lanes
        Columns of a packed panel.
    """
    matrix = tvm_ffi.from_dlpack(np.full((_PACK_K, _PACK_N), 0.5, dtype=np.float32))
    source, sink = np.full((2, _COPY_ITEMS), 0.5, dtype=np.float32)
    return MachineConstants(
        launch_us=_rounded(launcher.launch_us),
        call_us=_rounded(launcher.call_us),
        pack_us_per_kb=_rounded(
            _wall_us(lambda: _ffi_api.pack_b(matrix, False, lanes))
            / (_PACK_K * _PACK_N * _ITEM_BYTES / _KILOBYTE)
        ),
        copy_us_per_kb=_rounded(
            _wall_us(lambda: np.copyto(sink, source)) / (_COPY_ITEMS * _ITEM_BYTES / _KILOBYTE)
        ),
    )


def _wall_us(call: Callable[[], object]) -> float:
    call()
    times = []
    for _ in range(_ROUNDS):
        start = time.perf_counter()
        for _ in range(_REPEATS):
            call()
        times.append((time.perf_counter() - start) / _REPEATS)
    return float(np.median(times)) * 1e6


def _rounded(value: float) -> float:
    return float(f"{value:.4g}")
