"""What every benchmark prints first: the machine and the versions."""

from __future__ import annotations

import os
import platform
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

_PACKAGES = ("moonpoly", "apache-tvm", "apache-tvm-ffi", "numpy")
_CACHES = Path("/sys/devices/system/cpu/cpu0/cache")


def _read(path: str | Path) -> str:
    try:
        return Path(path).read_text().strip()
    except OSError:
        return "unknown"


def _cpu_model() -> str:
    for line in _read("/proc/cpuinfo").splitlines():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()


def _caches() -> str:
    sizes = []
    for index in sorted(_CACHES.glob("index*")):
        if _read(index / "type") != "Instruction":
            sizes.append(f"L{_read(index / 'level')} {_read(index / 'size')}")
    return ", ".join(sizes) or "unknown"


def _memory_gib() -> str:
    try:
        return f"{os.sysconf('SC_PAGE_SIZE') * os.sysconf('SC_PHYS_PAGES') / 2**30:.1f} GiB"
    except (ValueError, OSError):
        return "unknown"


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return "not installed"


def facts(threads: int) -> dict[str, str]:
    """Describe this machine and the packages that take part, as printable pairs."""
    huge_pages = _read("/sys/kernel/mm/transparent_hugepage/enabled")
    return {
        "cpu": _cpu_model(),
        "cores": f"{len(os.sched_getaffinity(0))} usable, {threads} threads per contender",
        "caches": _caches(),
        "memory": _memory_gib(),
        "huge pages": huge_pages[huge_pages.find("[") + 1 : huge_pages.find("]")],
        "system": f"{platform.system()} {platform.release()}, Python {platform.python_version()}",
        "versions": ", ".join(f"{name} {_version(name)}" for name in _PACKAGES),
    }
