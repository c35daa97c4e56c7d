"""A pretended GPU for the launcher's tests, where there is no real one."""

from __future__ import annotations

import ctypes
import os
import shutil

import pytest
from gpu_runtime import fake_gpu


@pytest.fixture(scope="session")
def fake_driver(tmp_path_factory):
    """Return the pretended driver; it must be the first driver that the process opens."""
    if shutil.which("nvidia-smi") is not None:
        pytest.skip("there is a real GPU: its own tests cover the launcher")
    library = fake_gpu.build(tmp_path_factory.mktemp("driver"))
    if library is None:
        pytest.skip("needs a C++ compiler")
    os.environ["MOONPOLY_CUDA_DRIVER"] = str(library)
    driver = ctypes.CDLL(str(library))
    driver.fake_log.restype = ctypes.c_char_p
    return driver
