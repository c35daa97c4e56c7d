"""The list of real models: what it promises of each, and what it says where a file can't be had."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest

from moonpoly import config
from moonpoly.model_registry import MODELS, ModelFileError
from moonpoly.model_registry.exports import TorchExport
from moonpoly.model_registry.packages import PackageFile

_EXPORTERS = Path(__file__).parent / "model_registry" / "exporters"
_each_model = pytest.mark.parametrize("model", MODELS, ids=lambda model: model.name)


@_each_model
def test_is_checked_at_six_legal_shapes_or_more(model):
    assert len(set(model.shapes)) >= 6
    for shape in model.shapes:
        for axis, size in zip(model.axes, shape, strict=True):
            assert axis.allows(size), f"{axis.name} = {size}"


@_each_model
def test_is_checked_at_the_smallest_size_of_each_axis_and_at_larger_ones(model):
    for axis, sizes in zip(model.axes, zip(*model.shapes, strict=True), strict=True):
        if axis.name == "batch":
            assert min(sizes) == 1 < max(sizes)
        if axis.low != axis.high:
            assert len(set(sizes)) > 1


@_each_model
def test_inputs_have_their_shapes_and_types_and_follow_the_seed(model):
    shape = model.shapes[0]
    sizes = dict(zip((axis.name for axis in model.axes), shape, strict=True))
    made, again = (model.inputs(shape, np.random.default_rng(3)) for _ in range(2))
    for operand in model.operands:
        array = made[operand.name]
        assert (array.shape, array.dtype.name) == (operand.sized(sizes), operand.dtype)
        np.testing.assert_array_equal(array, again[operand.name])


def test_names_are_unique():
    assert len({model.name for model in MODELS}) == len(MODELS)


def test_every_architecture_is_exported_by_both_exporters():
    exports = {(m.source.architecture, m.source.exporter) for m in MODELS if _is_export(m)}
    sources = "".join(path.read_text() for path in _EXPORTERS.glob("*.py"))
    for architecture in {name for name, _ in exports}:
        assert {(architecture, "script"), (architecture, "dynamo")} <= exports
        assert f'"{architecture}": ' in sources


def _is_export(model):
    return isinstance(model.source, TorchExport)


def test_an_export_needs_an_interpreter_that_runs(monkeypatch, tmp_path):
    monkeypatch.setenv(config.ENV_CACHE_DIR, str(tmp_path))
    monkeypatch.setenv(config.ENV_EXPORT_PYTHON, str(tmp_path / "none"))
    with pytest.raises(ModelFileError, match=f"{config.ENV_EXPORT_PYTHON}: can't run"):
        TorchExport("bert", "script").path()


def test_an_export_names_the_packages_that_are_missing(monkeypatch, tmp_path):
    # Isolated and without its site packages, an interpreter has none of them.
    bare = tmp_path / "python"
    bare.write_text(f'#!/bin/sh\nexec "{sys.executable}" -I -S "$@"\n')
    bare.chmod(0o755)
    monkeypatch.setenv(config.ENV_CACHE_DIR, str(tmp_path))
    monkeypatch.setenv(config.ENV_EXPORT_PYTHON, str(bare))
    with pytest.raises(ModelFileError, match=r"lacks torch, torchvision, transformers"):
        TorchExport("bert", "script").path()


def test_a_package_that_is_not_to_be_had_is_named(monkeypatch, tmp_path):
    monkeypatch.setenv(config.ENV_CACHE_DIR, str(tmp_path))
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    with pytest.raises(ModelFileError, match=r"pip download magika==1\.0\.3"):
        PackageFile("magika", "1.0.3", "magika/model.onnx").path()


def test_an_installed_package_of_another_version_is_not_taken(monkeypatch, tmp_path):
    monkeypatch.setenv(config.ENV_CACHE_DIR, str(tmp_path))
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    with pytest.raises(ModelFileError, match=r"numpy==0\.0\.1"):
        PackageFile("numpy", "0.0.1", "numpy/__init__.py").path()


def test_an_installed_file_is_taken_from_its_place():
    version = np.__version__
    assert PackageFile("numpy", version, "numpy/__init__.py").path() == Path(np.__file__)
