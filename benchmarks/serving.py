"""What every worker process does: time calls, sleep between turns, answer over its pipes.

It answers one JSON line on its original standard output per JSON line on standard input. Before it
answers, it waits until its own thread pools sleep, so that the next contender has the cores.
"""

from __future__ import annotations

import json
import math
import os
import sys
import time
from collections.abc import Callable, Sequence
from typing import Any

from .contenders import Way
from .placement import run_ns, spinning, spread, stalled_s

_QUIET_STEP_S = 0.0003
_QUIET_READS = 2
_QUIET_LIMIT_S = 1.0
_MAX_CALLS = 100_000
_MAX_ATTEMPTS = 3

# A sample in which the threads waited longer than this for a core was disturbed.
STALLED_SHARE = 0.05


def settle() -> float:
    """Wait until this process's pools sleep; return the seconds that took.

    Thread states are read rather than CPU time: the kernel adds up the time of a thread that runs
    on another core only at its next tick.
    """
    start = time.perf_counter()
    quiet = 0
    while quiet < _QUIET_READS and time.perf_counter() - start < _QUIET_LIMIT_S:
        quiet = 0 if spinning() else quiet + 1
        time.sleep(_QUIET_STEP_S)
    return time.perf_counter() - start


def time_calls(call: Callable[[], object], num_calls: int) -> float:
    """Seconds per call over `num_calls` back-to-back calls."""
    loop = range(num_calls)
    start = time.perf_counter()
    for _ in loop:
        call()
    return (time.perf_counter() - start) / num_calls


class Measured:
    """A way of calling the contender, with its calibrated number of calls.

    Attributes
    ----------
    call_s
        Seconds of a call, as far as known.
    returned
        What the first call returned.
    """

    def __init__(self, way: Way, cores: list[int]) -> None:
        self.way = way
        self.dropped = False
        self._cores = cores
        settle()  # the pool of another way may spin still
        self._ran_before = run_ns()
        self._start = time.perf_counter()
        self.returned = way.call()
        self.call_s = time.perf_counter() - self._start

    def calibrate(self, sample_s: float) -> None:
        """Find the number of calls of a sample and give the threads that take part a core each."""
        settle()
        num_calls = 1
        while self.call_s * num_calls < sample_s / 4 and num_calls < _MAX_CALLS:
            num_calls = min(_MAX_CALLS, max(4 * num_calls, int(sample_s / 8 / self.call_s)))
            self._ran_before, self._start = run_ns(), time.perf_counter()
            self.call_s = time_calls(self.way.call, num_calls)
        spread(self._cores, self._ran_before, time.perf_counter() - self._start)

    def sample(self, sample_s: float) -> tuple[float, float]:
        """Return seconds per call and the share of the time that threads waited for a core.

        A disturbed sample is taken again at once, while the pool is awake; the least disturbed
        counts.
        """
        num_calls = min(_MAX_CALLS, max(1, round(sample_s / self.call_s)))
        if self.call_s < sample_s:
            self.way.call()  # brings the pool out of its sleep and the operands into the cache
        best = (math.inf, math.inf)
        for _ in range(_MAX_ATTEMPTS):
            stalled = stalled_s()
            call_s = time_calls(self.way.call, num_calls)
            share = (stalled_s() - stalled) / (call_s * num_calls)
            best = min(best, (share, call_s))
            if share <= STALLED_SHARE or call_s > sample_s:
                break
        share, call_s = best
        return call_s, share


def take_turn(measured: Sequence[Measured], sample_us: float) -> dict[str, Any]:
    """Measure every way that was not dropped once; the answer to a ``turn`` request."""
    us: dict[str, float] = {}
    worst_share = 0.0
    for each in measured:
        if not each.dropped:
            if us:
                settle()  # two ways may own a pool each
            call_s, share = each.sample(sample_us / 1e6)
            us[each.way.name] = call_s * 1e6
            worst_share = max(worst_share, share)
    return {"us": us, "stalled_share": worst_share}


def serve(create: Callable[[], object]) -> None:
    """Create the worker and call its method for every request, until the input ends.

    A library that is not installed is reported, not raised: the parent names the package.
    """
    # Libraries that print must not disturb the protocol.
    replies = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)

    def reply(message: dict[str, Any]) -> None:
        replies.write(json.dumps(message) + "\n")
        replies.flush()

    try:
        worker = create()
    except ModuleNotFoundError as error:
        reply({"missing": error.name or str(error)})
        return
    reply({"ready": True, "settle_s": settle()})
    cpu_at_reply = time.process_time()
    for line in sys.stdin:
        idle_cpu_s = time.process_time() - cpu_at_reply
        request = json.loads(line)
        message = getattr(worker, request.pop("command"))(**request)
        message["idle_cpu_s"] = idle_cpu_s
        message["settle_s"] = settle()
        reply(message)
        cpu_at_reply = time.process_time()
