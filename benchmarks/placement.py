"""Where this process's threads run: one core each, and which of them wait for one.

Left alone, the kernel may keep the threads that a call wakes on one core for tens of milliseconds
while another core idles, and a sample of some milliseconds then shows half the speed. Some runtimes
pin their threads and some do not; here every contender's are pinned the same way.
"""

from __future__ import annotations

import contextlib
import os
import threading
from pathlib import Path

_TASKS = Path("/proc/self/task")
# A thread that ran for this share of the time of a call has a part in it.
_ACTIVE_SHARE = 0.1


def _schedstat(column: int) -> dict[int, int]:
    """Thread id → a number of its schedstat in ns; empty where the system has none."""
    found: dict[int, int] = {}
    for task in _TASKS.glob("*/schedstat"):
        with contextlib.suppress(OSError, IndexError):  # the thread ended in between
            found[int(task.parent.name)] = int(task.read_text().split()[column])
    return found


def run_ns() -> dict[int, int]:
    """Thread id → ns that it has run."""
    return _schedstat(0)


def stalled_s() -> float:
    """Seconds that all threads together have waited for a core."""
    return sum(_schedstat(1).values()) / 1e9


def spinning() -> bool:
    """Whether a thread other than the caller is running or waiting for a core."""
    own = threading.get_native_id()
    for task in _TASKS.glob("*/stat"):
        if int(task.parent.name) == own:
            continue
        with contextlib.suppress(OSError):
            # The state follows the name, which is in brackets and may hold anything.
            if task.read_text().rpartition(")")[2].split()[0] == "R":
                return True
    return False


def usable_cores() -> list[int]:
    """The cores that the process was given, in order."""
    return sorted(os.sched_getaffinity(os.getpid()))


def release(cores: list[int]) -> None:
    """Let the calling thread, and the threads it will start, run on any of `cores`."""
    os.sched_setaffinity(threading.get_native_id(), cores)


def spread(cores: list[int], before: dict[int, int], elapsed_s: float) -> None:
    """Pin the calling thread and those that ran since `before` to a core each.

    Parameters
    ----------
    before
        What `run_ns` gave `elapsed_s` seconds ago; calls were made in between.
    """
    own = threading.get_native_id()
    least_ns = _ACTIVE_SHARE * elapsed_s * 1e9
    ran = {tid: ns - before.get(tid, 0) for tid, ns in run_ns().items() if tid != own}
    active = sorted((tid for tid, ns in ran.items() if ns > least_ns), key=ran.__getitem__)
    for tid, core in zip((own, *reversed(active)), cores, strict=False):
        with contextlib.suppress(ProcessLookupError):
            os.sched_setaffinity(tid, {core})
