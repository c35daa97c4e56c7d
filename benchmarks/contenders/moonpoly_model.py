"""MoonPoly on whole models: the public call of a loaded executable."""

from __future__ import annotations

import moonpoly
from moonpoly import _ffi_api

from . import Array, BoundModel


class MoonPolyModel:
    """A compiled model, called with arrays by name."""

    def __init__(self, threads: int) -> None:
        _ffi_api.set_num_threads(threads)
        self._threads = threads
        self._executable: moonpoly.Executable | None = None

    def facts(self) -> dict[str, str]:
        return {"version": f"moonpoly {moonpoly.__version__}", "threads": str(self._threads)}

    def load(self, path: str) -> None:
        self._executable = moonpoly.load(path)

    def bind(self, inputs: dict[str, Array]) -> BoundModel:
        executable = self._executable
        assert executable is not None, "load comes before bind"
        return BoundModel(lambda: executable(**inputs), lambda: executable(**inputs))


def create(threads: int) -> MoonPolyModel:
    """Create the contender."""
    return MoonPolyModel(threads)
