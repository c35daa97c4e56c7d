"""Times calls of a loaded model."""

from __future__ import annotations

import statistics
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from moonpoly.runtime.executable import Executable


@dataclass(frozen=True)
class CallTimes:
    """Latencies of repeated calls, in µs, in the order in which they were measured."""

    samples_us: tuple[float, ...]

    @property
    def median_us(self) -> float:
        return statistics.median(self.samples_us)

    @property
    def min_us(self) -> float:
        return min(self.samples_us)

    @property
    def mean_us(self) -> float:
        return statistics.fmean(self.samples_us)

    @property
    def max_us(self) -> float:
        return max(self.samples_us)


def time_calls(exe: Executable, inputs: Mapping[str, Any], *, repeat: int) -> CallTimes:
    """Call ``exe`` once unmeasured, then ``repeat`` times, each measured by the wall clock."""
    exe(**inputs)
    samples = []
    for _ in range(repeat):
        start = time.perf_counter_ns()
        exe(**inputs)
        samples.append((time.perf_counter_ns() - start) / 1e3)
    return CallTimes(tuple(samples))
