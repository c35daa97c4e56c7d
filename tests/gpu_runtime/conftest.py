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


@pytest.fixture(scope="session")
def torch():
    """Return torch, where it has a Hopper GPU."""
    torch = pytest.importorskip("torch", reason="needs torch with CUDA")
    if not torch.cuda.is_available() or torch.cuda.get_device_capability()[0] != 9:
        pytest.skip("needs a GPU of compute capability 9.0")
    return torch
