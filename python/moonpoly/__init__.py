"""MoonPoly: micro-kernels tuned offline, composed for the shape at run time.

The names here are the public interface. They are loaded on first use, so that a process that only
runs a model never loads the compiler.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

from moonpoly.config import package_version
from moonpoly.error import MoonPolyError
from moonpoly.target import Target
from moonpoly.workload import Workload

if TYPE_CHECKING:
    from moonpoly.compiler import compile
    from moonpoly.planning.plans import plan
    from moonpoly.planning.product import matmul
    from moonpoly.runtime import Executable, load

__version__ = package_version()

__all__ = [
    "Executable",
    "MoonPolyError",
    "Target",
    "Workload",
    "__version__",
    "compile",
    "load",
    "matmul",
    "plan",
]

_LAZY = {
    "Executable": "moonpoly.runtime",
    "compile": "moonpoly.compiler",
    "load": "moonpoly.runtime",
    "matmul": "moonpoly.planning",
    "plan": "moonpoly.planning",
}


def __getattr__(name: str) -> object:
    if name not in _LAZY:
        raise AttributeError(f"module 'moonpoly' has no attribute {name!r}")
    value = getattr(importlib.import_module(_LAZY[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
