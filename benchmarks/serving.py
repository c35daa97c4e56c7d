"""What every worker process does: time calls, sleep between turns, answer over its pipes.

It answers one JSON line on its original standard output per JSON line on standard input. Before it
answers, it waits until its own thread pools sleep, so that the next contender has the cores.
"""

from __future__ import annotations

import json
import os
import sys
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from .contenders import Way

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


class Measured:
    """A way of calling the contender, with its calibrated number of calls."""

    def __init__(self, way: Way, error: float, first_s: float) -> None:
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


def take_turn(measured: Sequence[Measured], sample_us: float) -> dict[str, Any]:
    """Measure every way that was not dropped once; the answer to a ``turn`` request."""
    stalled, start = stalled_s(), time.perf_counter()
    us: dict[str, float] = {}
    for each in measured:
        if not each.dropped:
            if us:
                settle()  # two ways may own a pool each
            us[each.way.name] = each.sample(sample_us / 1e6) * 1e6
    busy = time.perf_counter() - start
    return {"us": us, "stalled_share": (stalled_s() - stalled) / busy}


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
