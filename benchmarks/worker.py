"""The process in which one contender's product is measured.

``python -m moonpoly.benchmarks.worker NAME THREADS``; driven by `moonpoly.benchmarks.peer.Peer`.
"""

from __future__ import annotations

import sys
from typing import Any

from . import contenders
from .operands import Operands, worst_error
from .placement import release, usable_cores
from .serving import Measured, serve, take_turn

# A way of calling that is this much slower than the contender's best, and slow, gets no turns.
_DROP_RATIO = 1.5
_DROP_ABOVE_S = 0.002


class Worker:
    """One contender and the shape it is prepared for."""

    def __init__(self, name: str, threads: int) -> None:
        self._cores = usable_cores()
        self._contender = contenders.create(name, threads)
        self._operands = Operands()
        self._measured: list[Measured] = []

    def reserve(self, input_bytes: int, output_bytes: int) -> dict[str, Any]:
        """Set aside address space for the operands of the largest shape to come."""
        self._operands = Operands(input_bytes, output_bytes)
        return {}

    def facts(self) -> dict[str, Any]:
        """Version, kernels and threads."""
        return dict(self._contender.facts())

    def prepare(self, m: int, n: int, k: int, sample_us: float) -> dict[str, Any]:
        """Set up every way for a shape, check its result and find its number of calls."""
        release(self._cores)  # threads that are started now would inherit the caller's one core
        a, b, c = self._operands(m, n, k)
        self._measured = []
        errors: dict[str, float] = {}
        for way in self._contender.ways(a, b, c):
            c.fill(float("nan"))
            measured = Measured(way, self._cores)
            errors[way.name] = worst_error(a, b, way.result(measured.returned))
            measured.returned = None
            self._measured.append(measured)
        for mode in contenders.MODES:
            rivals = [x for x in self._measured if mode in x.way.modes]
            best = min((x.call_s for x in rivals), default=0.0)
            for x in rivals:
                x.dropped = x.call_s > max(_DROP_RATIO * best, _DROP_ABOVE_S)
        for x in self._measured:
            if not x.dropped:
                x.calibrate(sample_us / 1e6)
        return {
            "ways": {
                x.way.name: {
                    "modes": x.way.modes,
                    "us": x.call_s * 1e6,
                    "error": errors[x.way.name],
                    "dropped": x.dropped,
                }
                for x in self._measured
            }
        }

    def turn(self, sample_us: float) -> dict[str, Any]:
        """Measure every way once."""
        return take_turn(self._measured, sample_us)


if __name__ == "__main__":
    serve(lambda: Worker(sys.argv[1], int(sys.argv[2])))
