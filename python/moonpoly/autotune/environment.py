"""What a measurement depends on besides the kernel: kept beside every result."""

from __future__ import annotations

from importlib.metadata import version
from pathlib import Path


def environment() -> dict[str, str]:
    """Return the processor's name and the compiler's version."""
    names = {
        line.partition(":")[2].strip()
        for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
        if line.startswith("model name")
    }
    return {"cpu": ", ".join(sorted(names)), "tvm": version("apache-tvm")}
