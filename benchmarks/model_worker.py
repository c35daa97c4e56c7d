"""The process in which one contender's whole models are measured.

``python -m moonpoly.benchmarks.model_worker NAME THREADS``; driven by
`moonpoly.benchmarks.peer.Peer`.
"""

from __future__ import annotations

import sys
import time
from typing import Any

import numpy as np

from . import contenders
from .operands import aligned_copy
from .placement import release, usable_cores
from .serving import Measured, serve, take_turn


class ModelWorker:
    """One contender and the model it has loaded."""

    def __init__(self, name: str, threads: int) -> None:
        self._cores = usable_cores()
        self._contender = contenders.create_model(name, threads)
        self._measured: list[Measured] = []

    def facts(self) -> dict[str, Any]:
        """Version and threads."""
        return dict(self._contender.facts())

    def load(self, path: str) -> dict[str, Any]:
        """Load a model file."""
        start = time.perf_counter()
        release(self._cores)
        self._contender.load(path)
        return {"load_s": time.perf_counter() - start}

    def prepare(self, inputs: str, outputs: str, sample_us: float | None) -> dict[str, Any]:
        """Bind the arrays of the .npz `inputs`, write the outputs to the .npz `outputs`.

        With `sample_us`, also find how many calls a sample of that length takes.
        """
        with np.load(inputs) as file:
            arrays = {name: aligned_copy(file[name]) for name in file.files}
        release(self._cores)  # threads that are started now would inherit the caller's one core
        bound = self._contender.bind(arrays)
        way = contenders.Way("run", contenders.MODES, bound.call, lambda _: np.empty((0, 0), "f4"))
        measured = Measured(way, self._cores)
        measured.returned = None
        np.savez(outputs, allow_pickle=False, **bound.outputs())
        self._measured = [measured]
        if sample_us is not None:
            measured.calibrate(sample_us / 1e6)
        return {
            "ways": {
                "run": {
                    "modes": way.modes,
                    "us": measured.call_s * 1e6,
                    "error": 0.0,
                    "dropped": False,
                }
            }
        }

    def turn(self, sample_us: float) -> dict[str, Any]:
        """Measure the model once."""
        return take_turn(self._measured, sample_us)


if __name__ == "__main__":
    serve(lambda: ModelWorker(sys.argv[1], int(sys.argv[2])))
