"""A run that dies or hangs at will, in a module that workers can import."""

from __future__ import annotations

import os
import time

from onnx_standard.outcome import Outcome, Status


def run_unruly(name: str) -> Outcome:
    """Do as the name says."""
    if name == "dies":
        os.abort()
    if name == "hangs":
        time.sleep(3600)
    return Outcome(name, Status.PASSED)
