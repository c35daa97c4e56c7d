"""The process in which one contender is measured: ``python -m moonpoly.benchmarks.worker NAME``.

It answers one JSON line on its original standard output per JSON line on standard input. Before it
answers, it waits until its own thread pools sleep, so that the next contender has the cores.
"""

from __future__ import annotations

import json
import os
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, TextIO

from . import contenders
from .operands import Operands, worst_error

_DROP_RATIO = 1.5
_DROP_ABOVE_S = 0.02
_QUIET_STEP_S = 0.0003
_QUIET_READS = 3
_QUIET_LIMIT_S = 1.0
_MAX_CALLS = 100_000


def stalled_s() -> float:
    """Seconds that this process's threads waited for a core so far (0 where Linux won't tell)."""
    total = 0
    for task in Path("/proc/self/task").glob("*/schedstat"):
        try:
            total += int(task.read_text().split()[1])
        except (OSError, IndexError):
            continue  # the thread ended in between
    return total / 1e9


def _spinning() -> bool:
    """Whether a thread other than the caller is running or waiting for a core."""
    own = str(threading.get_native_id())
    for task in Path("/proc/self/task").iterdir():
        if task.name == own:
            continue
        try:
            # The state follows the name, which is in brackets and may hold anything.
            state = (task / "stat").read_text().rpartition(")")[2].split()[0]
        except OSError:
            continue  # the thread ended in between
        if state == "R":
            return True
    return False


def settle() -> float:
    """Wait until this process's pools sleep; return the seconds that took.

    Thread states are read rather than CPU time: the kernel adds up the time of a thread that runs
    on another core only at its next tick.
    """
    start = time.perf_counter()
    quiet = 0
    while quiet < _QUIET_READS and time.perf_counter() - start < _QUIET_LIMIT_S:
        quiet = 0 if _spinning() else quiet + 1
        time.sleep(_QUIET_STEP_S)
    return time.perf_counter() - start


def time_calls(call: Callable[[], object], num_calls: int) -> float:
    """Seconds per call over `num_calls` back-to-back calls."""
    loop = range(num_calls)
    start = time.perf_counter()
    for _ in loop:
        call()
    return (time.perf_counter() - start) / num_calls


class _Measured:
    """A way of calling the contender, with its calibrated number of calls."""

    def __init__(self, way: contenders.Way, error: float, first_s: float) -> None:
        self.way = way
        self.error = error
        self.call_s = first_s
        self.dropped = False

    def calibrate(self, sample_s: float) -> None:
        num_calls = 1
        while self.call_s * num_calls < sample_s / 4 and num_calls < _MAX_CALLS:
            num_calls = min(_MAX_CALLS, max(4 * num_calls, int(sample_s / 8 / self.call_s)))
            self.call_s = time_calls(self.way.call, num_calls)

    def sample(self, sample_s: float) -> float:
        num_calls = min(_MAX_CALLS, max(1, round(sample_s / self.call_s)))
        if self.call_s < sample_s:
            self.way.call()  # brings the pool out of its sleep and the operands into the cache
        return time_calls(self.way.call, num_calls)


class Worker:
    """Serves the requests of `moonpoly.benchmarks.peer.Peer`."""

    def __init__(self, name: str, threads: int) -> None:
        self._contender = contenders.create(name, threads)
        self._operands = Operands()
        self._measured: list[_Measured] = []

    def facts(self) -> dict[str, Any]:
        """Version, kernels and threads."""
        return dict(self._contender.facts())

    def prepare(self, m: int, n: int, k: int, sample_us: float) -> dict[str, Any]:
        """Set up every way for a shape, check its result and find its number of calls."""
        self._measured = []
        a, b, c = self._operands(m, n, k)
        for way in self._contender.ways(a, b, c):
            c.fill(float("nan"))
            start = time.perf_counter()
            way.call()
            first_s = time.perf_counter() - start
            self._measured.append(_Measured(way, worst_error(a, b, way.result()), first_s))
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
                    "error": x.error,
                    "dropped": x.dropped,
                }
                for x in self._measured
            }
        }

    def turn(self, sample_us: float) -> dict[str, Any]:
        """Measure every way once."""
        stalled, start = stalled_s(), time.perf_counter()
        us: dict[str, float] = {}
        for x in self._measured:
            if not x.dropped:
                if us:
                    settle()  # two ways may own a pool each
                us[x.way.name] = x.sample(sample_us / 1e6) * 1e6
        busy = time.perf_counter() - start
        return {"us": us, "stalled_share": (stalled_s() - stalled) / busy}


def serve(name: str, threads: int, requests: TextIO, replies: TextIO) -> None:
    """Answer requests until the input ends."""

    def reply(message: dict[str, Any]) -> None:
        replies.write(json.dumps(message) + "\n")
        replies.flush()

    try:
        worker = Worker(name, threads)
    except ImportError as error:
        reply({"missing": error.name or str(error)})
        return
    reply({"ready": True, "settle_s": settle()})
    cpu_at_reply = time.process_time()
    for line in requests:
        idle_cpu_s = time.process_time() - cpu_at_reply
        request = json.loads(line)
        message = getattr(worker, request.pop("command"))(**request)
        message["idle_cpu_s"] = idle_cpu_s
        message["settle_s"] = settle()
        reply(message)
        cpu_at_reply = time.process_time()


def main() -> None:
    """Run the worker named on the command line with that many threads."""
    # Libraries that print must not disturb the protocol.
    replies = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    serve(sys.argv[1], int(sys.argv[2]), sys.stdin, replies)


if __name__ == "__main__":
    main()
