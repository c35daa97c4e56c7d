"""The machine's limits: FMA peak and read bandwidth by working set, measured with TVM-made loops.

They run in a process of their own (``python -m moonpoly.benchmarks.roofline THREADS``).
"""

from __future__ import annotations

import itertools
import json
import math
import subprocess
import sys
import time
from dataclasses import asdict, dataclass
from typing import Any

from .peer import BenchmarkError, environment
from .shape_lists import Problem

_CHAINS = 24  # independent FMA chains: latency times issue width, within 32 registers
_STREAMS = 8
_MAX_PES = 512
_FMA_ROUNDS = 400_000
_READ_BYTES = 100_000_000
_REPEATS = 6
_SETS_KB = (16, 32, 128, 256, 512, 768, 1024, 2048, 4096, 8192, 16384, 32768, 65536, 131072, 262144)


@dataclass(frozen=True)
class Roofline:
    """What this machine can reach at most with the threads of the benchmark.

    Attributes
    ----------
    threads
        Number of threads that took part.
    peak_gflops
        FMA peak of all threads together, and `peak_core_gflops` of one.
    bandwidth
        Pairs of (working set in bytes over all threads, read bandwidth in GB/s of all threads).
    """

    threads: int
    peak_gflops: float
    peak_core_gflops: float
    bandwidth: tuple[tuple[int, float], ...]

    def bandwidth_gbs(self, num_bytes: int) -> float:
        """Read bandwidth in GB/s for a working set, between measured sizes on a log scale."""
        points = self.bandwidth
        if num_bytes <= points[0][0]:
            return points[0][1]
        for (low, low_gbs), (high, high_gbs) in itertools.pairwise(points):
            if num_bytes <= high:
                t = math.log(num_bytes / low) / math.log(high / low)
                return low_gbs + t * (high_gbs - low_gbs)
        return points[-1][1]

    def limit_us(self, problem: Problem) -> float:
        """Least µs for `problem`: its operations at peak or its bytes at the set's bandwidth."""
        compute = problem.operations / self.peak_gflops / 1e3
        memory = problem.num_bytes / self.bandwidth_gbs(problem.num_bytes) / 1e3
        return max(compute, memory)

    def as_json(self) -> dict[str, Any]:
        """Plain values."""
        return asdict(self)


def measure(threads: int) -> Roofline:
    """Measure in a fresh process with `threads` threads.

    Raises
    ------
    BenchmarkError
        If the process fails.
    """
    done = subprocess.run(
        [sys.executable, "-m", __name__, str(threads)],
        env=environment(threads),
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode != 0:
        last = (done.stderr.strip().splitlines() or ["no message"])[-1]
        raise BenchmarkError(f"the roofline measurement ended with {done.returncode}: {last}")
    found = json.loads(done.stdout.strip().splitlines()[-1])
    found["bandwidth"] = tuple((int(size), float(gbs)) for size, gbs in found["bandwidth"])
    return Roofline(**found)


def _best_s(call: Any) -> float:
    best = math.inf
    for _ in range(_REPEATS):
        start = time.perf_counter()
        call()
        best = min(best, time.perf_counter() - start)
    return best


def _measure_here(threads: int) -> Roofline:
    import numpy as np
    import tvm
    import tvm_ffi

    from moonpoly.target import host_target

    from .operands import Operands
    from .roofline_kernels import fma_loop, read_loop

    target = host_target()
    lanes = target.vector_lanes["float32"]
    compiled = tvm.compile(
        tvm.IRModule({"fma": fma_loop(lanes, _CHAINS), "read": read_loop(lanes, _STREAMS)}),
        target=target.tvm_target(),
    )
    fma, read = compiled["fma"], compiled["read"]
    source = Operands()(1, 1, max(_SETS_KB) * 1024 // 4)[0].reshape(-1)
    sums = Operands()(1, _MAX_PES * max(_CHAINS, _STREAMS) * lanes, 1)[2].reshape(-1)
    source_tensor = tvm_ffi.from_dlpack(source)
    sums_tensor = tvm_ffi.from_dlpack(sums)
    sums.fill(np.float32(1.0))

    def peak(pes: int) -> float:
        seconds = _best_s(lambda: fma(pes, _FMA_ROUNDS, sums_tensor))
        return 2.0 * lanes * _CHAINS * _FMA_ROUNDS * pes / seconds / 1e9

    def bandwidth(set_bytes: int) -> float:
        blocks = set_bytes // threads // (lanes * _STREAMS * 4)
        touched = blocks * lanes * _STREAMS * 4 * threads
        passes = max(1, _READ_BYTES // touched)
        seconds = _best_s(lambda: read(threads, passes, blocks, source_tensor, sums_tensor))
        return touched * passes / seconds / 1e9

    # A smaller set is never slower to read than a larger one; where it seems so, it was disturbed.
    curve: list[tuple[int, float]] = []
    for kb in reversed(_SETS_KB):
        gbs = round(bandwidth(kb * 1024), 1)
        curve.append((kb * 1024, max(gbs, curve[-1][1] if curve else 0.0)))
    return Roofline(
        threads=threads,
        peak_gflops=round(peak(threads), 1),
        peak_core_gflops=round(peak(1), 1),
        bandwidth=tuple(reversed(curve)),
    )


if __name__ == "__main__":
    print(json.dumps(_measure_here(int(sys.argv[1])).as_json()))
