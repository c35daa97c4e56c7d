"""The host's kernel set, built once for all tests of the C++ runtime."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any

import pytest
import tvm_ffi


@dataclass(frozen=True)
class Kernels:
    """A loaded kernel set with what it was made from."""

    panel: int
    handle: Any = field(repr=False)
    library: Any = field(repr=False)
    manifest: dict[str, Any] = field(repr=False)


@pytest.fixture(scope="session")
def kernels():
    """Return the host's kernel set with its manifest, its library and its panel width."""
    from moonpoly import _ffi_api, autotune
    from moonpoly.target import host_target
    from moonpoly.workload import Workload

    artifact = autotune.load_artifact(host_target(), Workload())
    library = tvm_ffi.load_module(str(artifact.lib_path))
    handle = _ffi_api.KernelSet(json.dumps(artifact.manifest), library)
    return Kernels(int(artifact.manifest["panel"]), handle, library, artifact.manifest)


@pytest.fixture(autouse=True)
def threads_of_the_environment():
    """Give the number of threads back to the environment after each test."""
    yield
    from moonpoly import _ffi_api

    _ffi_api.set_num_threads(0)
