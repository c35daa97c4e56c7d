"""Shared fixtures: seeded data, a cache of its own, and skipping what the machine can't run."""

from __future__ import annotations

import shutil

import numpy as np
import pytest


@pytest.fixture
def rng() -> np.random.Generator:
    """Return a generator with a fixed seed, so that a failure repeats."""
    return np.random.default_rng(20240607)


@pytest.fixture
def empty_cache(tmp_path, monkeypatch):
    """Point the cache at an empty folder and return it."""
    path = tmp_path / "cache"
    monkeypatch.setenv("MOONPOLY_CACHE_DIR", str(path))
    return path


@pytest.fixture(scope="session")
def tiny_path(tmp_path_factory):
    """Return the path of a small compiled model, built once for the session."""
    from runtime import tiny_model

    return tiny_model.build(tmp_path_factory.mktemp("tiny") / "tiny.so")


@pytest.fixture(scope="session")
def tiny(tiny_path):
    """Return the small compiled model, loaded."""
    import moonpoly

    return moonpoly.load(tiny_path)


def pytest_collection_modifyitems(config, items):
    """Skip the gpu group where no CUDA driver is installed: its kernels can't be launched."""
    if shutil.which("nvidia-smi") is not None:
        return
    skip = pytest.mark.skip(reason="no CUDA driver on this machine (no nvidia-smi)")
    for item in items:
        if item.get_closest_marker("gpu") is not None:
            item.add_marker(skip)
