"""Artifacts built from the committed records, once a session."""

from __future__ import annotations

import pytest
import tvm

from moonpoly.autotune.export import export
from moonpoly.target import Target
from moonpoly.workload import Workload


@pytest.fixture(scope="session")
def built(tmp_path_factory):
    """Return a function from a target's name to its artifact, skipping what can't run here."""
    artifacts = {}

    def build(name):
        target = Target.parse(name)
        if missing := target.missing_features():
            pytest.skip(f"this machine lacks {', '.join(missing)}")
        if name not in artifacts:
            folder = tmp_path_factory.mktemp("artifact") / name
            artifacts[name] = export(target, Workload(), folder)
        return artifacts[name]

    return build


@pytest.fixture(scope="session")
def kernels_of(built):
    """Return a function from a target's name to its loaded kernel library."""
    libraries = {}

    def load(name):
        if name not in libraries:
            libraries[name] = tvm.runtime.load_module(str(built(name).lib_path))
        return libraries[name]

    return load
