"""Time kernels in a process of their own."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from typing import Any

from moonpoly.autotune.gpu.compile import Kernel
from moonpoly.autotune.gpu.cost_model import LaunchSample
from moonpoly.autotune.gpu.launch import Bench, Launch, bench
from moonpoly.autotune.gpu.machine import GpuConstants, measure_gpu
from moonpoly.autotune.gpu.process import GpuProcess
from moonpoly.autotune.gpu.sample import plan_samples, sample_of, shaped
from moonpoly.error import TuneError

# The situations that schedules are chosen for: k, and tiles in units of what the GPU holds.
CONTEXTS = {"latency": (256, 0.3), "wave": (1024, 1.0), "deep": (4096, 1.0), "waves": (512, 4.0)}

_REPLAYS = 3
# A graph of so many launches, fewer where each is long.
_CALLS, _GRAPH_US = 20, 300.0


class LaunchWorker(GpuProcess):
    """Measures single kernels of one type."""

    def __init__(self, dtype: str) -> None:
        super().__init__()
        self._dtype = dtype

    def context_us(self, kernel: Kernel, image: bytes) -> list[float]:
        """Return the microseconds of a launch in each of :data:`CONTEXTS`, after a check.

        Raises
        ------
        TuneError
            If the kernel is wrong, crashes or hangs.
        """
        return self._ask(kernel, _context_us, image)

    def samples(self, kernel: Kernel, image: bytes, count: int, cuts: int) -> list[LaunchSample]:
        """Return measured launches: ``count`` with whole reductions and ``cuts`` with cut ones."""
        return self._ask(kernel, _samples, image, count, cuts)

    def constants(self, kernel: Kernel, image: bytes) -> GpuConstants:
        """Return the constants of the GPU, measured with a kernel of a small tile."""
        return self._ask(kernel, measure_gpu, image)

    def _ask(self, kernel: Kernel, function: Callable[..., Any], *arguments: object) -> Any:
        return self.ask(kernel.program.name, function, self._dtype, kernel, *arguments)


def _context_us(dtype: str, kernel: Kernel, image: bytes) -> list[float]:
    on = bench(dtype)
    function, slots = on.load(kernel, image)
    config = kernel.program.config
    for launch in checks(kernel):
        on.check(kernel, function, slots, launch)
    found = []
    for k, load in CONTEXTS.values():
        product = shaped(config, slots, k, load, 1.0)
        if product is None:
            raise TuneError(f"{kernel.program.name} has no launch of {load} waves")
        found.append(_launch_us(on, kernel, function, slots, product))
    return found


def checks(kernel: Kernel) -> Sequence[Launch]:
    """Return the products that a kernel must get right before it is timed: ragged everywhere."""
    config = kernel.program.config
    beyond = {"strided": 5, "residue": 6}.get(config.loads, config.item.aligned)
    k = 7 * config.step + beyond
    m, n = config.um * 3 - 1, config.un * 2 + 1
    if config.loads == "gemv":
        # One row or one column.
        m, n = (1 if side == 1 else side * 3 - 1 for side in (config.um, config.un))
    if not config.split:
        many = config.um * 9 - 3, config.un * 17 * config.blocks + 8
        return Launch(m, n, k), Launch(*many, config.step + 16)
    # Every width of its loads.
    odds = (1, 2, 4) if config.loads == "direct" else ()
    k_shared = k + 1 if odds else k
    shared = [Launch(m, n, k_shared, 4, 1)]
    if config.slices:
        shared += [Launch(m, n, k_shared, 2, 3), Launch(m, n, k_shared, 1, 5)]
    return Launch(m, n, k), *(Launch(m, n, k + odd) for odd in odds), *shared


def _samples(dtype: str, kernel: Kernel, image: bytes, count: int, cuts: int) -> list[LaunchSample]:
    on = bench(dtype)
    function, slots = on.load(kernel, image)
    return [
        sample_of(
            kernel.program.config, launch, slots, _launch_us(on, kernel, function, slots, launch)
        )
        for launch in plan_samples(kernel, slots, count, cuts)
    ]


def _launch_us(
    on: Bench, kernel: Kernel, function: ctypes.c_void_p, slots: int, launch: Launch
) -> float:
    one = on.launcher(kernel, function, slots, launch)
    first = on.device.graph_us(one, 4, 1)
    calls = max(4, min(_CALLS, int(_GRAPH_US / first)))
    return on.device.graph_us(one, calls, _REPLAYS)
