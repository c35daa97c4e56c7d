"""Ctrl-C between steps instead of inside one.

An exception that is raised while TVM calls back into Python comes out as another one, and a half
measured step is worth nothing. Steps take a second or two.
"""

from __future__ import annotations

import contextlib
import signal
import threading
from collections.abc import Callable, Iterator
from types import FrameType


@contextlib.contextmanager
def between_steps() -> Iterator[Callable[[], None]]:
    """Yield a function to call between steps: it raises KeyboardInterrupt after a Ctrl-C.

    A second Ctrl-C interrupts at once. Outside the main thread signals are left as they are.
    """
    if threading.current_thread() is not threading.main_thread():
        yield lambda: None
        return
    asked = False

    def remember(_signal: int, _frame: FrameType | None) -> None:
        nonlocal asked
        if asked:
            raise KeyboardInterrupt
        asked = True

    def check() -> None:
        if asked:
            raise KeyboardInterrupt

    previous = signal.signal(signal.SIGINT, remember)
    try:
        yield check
        check()
    finally:
        signal.signal(signal.SIGINT, previous)


def ignore_in_worker() -> None:
    """Leave a terminal's Ctrl-C, which all its processes get, to the parent."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
