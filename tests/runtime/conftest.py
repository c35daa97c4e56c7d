"""A small compiled model, built once for the session."""

from __future__ import annotations

import moonpoly
import pytest
from runtime import tiny_model


@pytest.fixture(scope="session")
def tiny_path(tmp_path_factory):
    return tiny_model.build(tmp_path_factory.mktemp("tiny") / "tiny.so")


@pytest.fixture(scope="session")
def tiny(tiny_path):
    return moonpoly.load(tiny_path)
