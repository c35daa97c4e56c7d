"""``moonpoly compile``: from a file to a file that runs, and every way in which it can't."""

from __future__ import annotations

import errno
import os

import numpy as np
import onnx
import pytest
from cli import onnx_models

from moonpoly import config


@pytest.fixture
def model(tmp_path):
    path = tmp_path / "linear.onnx"
    onnx.save(onnx_models.linear(), path)
    return path


def _files(folder):
    return sorted(path.name for path in folder.iterdir())


def test_compiles_then_runs_then_inspects(moonpoly_command, model, tmp_path):
    output = tmp_path / "linear.so"
    compiled = moonpoly_command("compile", model, "-o", output, "--dim-hint", "rows=1:64")
    assert compiled.code == 0, compiled.err
    assert "polymerized" in compiled.out
    x = np.random.default_rng(0).standard_normal((5, 12)).astype(np.float32)
    np.savez(tmp_path / "in.npz", x=x)
    ran = moonpoly_command(
        "run", output, "--inputs", tmp_path / "in.npz", "--outputs", tmp_path / "out.npz"
    )
    assert ran.code == 0, ran.err
    with np.load(tmp_path / "out.npz") as got:
        want = np.maximum(x.astype(np.float64) @ onnx_models.WEIGHT, 0)
        np.testing.assert_allclose(got["y"], want, rtol=1e-5, atol=1e-5)
    shown = moonpoly_command("inspect", output)
    assert shown.code == 0, shown.err
    for word in ("project", "polymerized", "[rows, 12]"):
        assert word in shown.out


def test_an_open_initialiser_may_be_given_or_left_out(moonpoly_command, tmp_path):
    model, output = onnx_models.linear(), tmp_path / "linear.so"
    shape = list(onnx_models.WEIGHT.shape)
    model.graph.input.append(onnx.helper.make_tensor_value_info("w", 1, shape))
    onnx.save(model, tmp_path / "linear.onnx")
    compiled = moonpoly_command("compile", tmp_path / "linear.onnx", "-o", output, "--open", "w")
    assert compiled.code == 0, compiled.err
    x = np.ones((3, 12), np.float32)
    for given in ({}, {"w": np.eye(12, 20, dtype=np.float32)}):
        weight = given.get("w", onnx_models.WEIGHT)
        np.savez(tmp_path / "in.npz", x=x, **given)
        files = ("--inputs", tmp_path / "in.npz", "--outputs", tmp_path / "out.npz")
        ran = moonpoly_command("run", output, *files)
        assert ran.code == 0, ran.err
        with np.load(tmp_path / "out.npz") as got:
            np.testing.assert_allclose(got["y"], np.maximum(x @ weight, 0), rtol=1e-5, atol=1e-5)
    made = moonpoly_command("run", output, "--fill", "ones", "--shape", "x=3x12")
    assert made.code == 0, made.err
    moonpoly_command("compile", tmp_path / "linear.onnx", "-o", output, "--open", "v").failed_with(
        5, "no initialiser 'v'", "'w'"
    )


def test_a_hint_gives_the_sizes_of_made_inputs(moonpoly_command, model, tmp_path):
    output = tmp_path / "linear.so"
    assert moonpoly_command("compile", model, "-o", output, "--dim-hint", "rows=2:7").code == 0
    ran = moonpoly_command("run", output, "--fill", "random")
    assert ran.code == 0, ran.err
    assert "7x20" in ran.out


def test_inspects_an_onnx_model_without_building_it(moonpoly_command, model, tmp_path):
    shown = moonpoly_command("inspect", model)
    assert shown.code == 0, shown.err
    for word in ("project", "polymerized", "[rows, 12]"):
        assert word in shown.out
    assert _files(tmp_path) == ["linear.onnx"]


@pytest.mark.parametrize("command", ["compile", "inspect"])
@pytest.mark.parametrize(
    ("content", "code"),
    [(b"", 3), (b"not a protobuf at all", 3), (b"\x08\x08" + bytes(range(256)), 3)],
    ids=["empty", "text", "bytes"],
)
def test_a_file_that_is_not_onnx_is_one_line(moonpoly_command, tmp_path, command, content, code):
    path = tmp_path / "bad.onnx"
    path.write_bytes(content)
    options = ["-o", tmp_path / "m.so"] if command == "compile" else []
    moonpoly_command(command, path, *options).failed_with(code, "bad.onnx")
    assert _files(tmp_path) == ["bad.onnx"]


@pytest.mark.parametrize("part", [0.3, 0.7, 0.99])
def test_a_truncated_model_is_one_line(moonpoly_command, model, tmp_path, part):
    data = model.read_bytes()
    model.write_bytes(data[: int(len(data) * part)])
    moonpoly_command("compile", model, "-o", tmp_path / "m.so").failed_with(3, "linear.onnx")
    assert _files(tmp_path) == ["linear.onnx"]


def test_an_invalid_graph_is_one_line(moonpoly_command, tmp_path):
    onnx.save(onnx_models.cyclic(), tmp_path / "cyclic.onnx")
    moonpoly_command("compile", tmp_path / "cyclic.onnx", "-o", tmp_path / "m.so").failed_with(3)
    assert _files(tmp_path) == ["cyclic.onnx"]


def test_an_unsupported_operator_is_named_with_node_and_opset(moonpoly_command, tmp_path):
    onnx.save(onnx_models.unsupported(), tmp_path / "strange.onnx")
    moonpoly_command("compile", tmp_path / "strange.onnx", "-o", tmp_path / "m.so").failed_with(
        4, "Unheard", "strange", "opset 3"
    )
    assert _files(tmp_path) == ["strange.onnx"]


def test_a_missing_model_is_one_line(moonpoly_command, tmp_path):
    moonpoly_command("compile", tmp_path / "no.onnx", "-o", tmp_path / "m.so").failed_with(
        8, "no.onnx"
    )


@pytest.mark.parametrize(
    ("options", "code", "word"),
    [
        (("--target", "z80"), 7, "unknown target 'z80'"),
        (("--dim-hint", "rows"), 2, "seq=1:512"),
        (("--dim-hint", "rows=9:3"), 2, "seq=1:512"),
        (("--dim-hint", "rows=0:3"), 2, "seq=1:512"),
        (("--dim-hint", "colums=1:3"), 5, "colums"),
    ],
)
def test_a_wrong_option_is_one_line(moonpoly_command, model, tmp_path, options, code, word):
    moonpoly_command("compile", model, "-o", tmp_path / "m.so", *options).failed_with(code, word)
    assert _files(tmp_path) == ["linear.onnx"]


def test_no_output_is_one_line(moonpoly_command, model):
    moonpoly_command("compile", model).failed_with(2, "--output")


def test_an_output_in_a_missing_folder_is_found_out_before_compiling(
    moonpoly_command, model, tmp_path
):
    moonpoly_command("compile", model, "-o", tmp_path / "no" / "m.so").failed_with(8, "can't write")


def test_a_disk_that_fills_up_leaves_no_part_of_a_model(
    moonpoly_command, model, tmp_path, monkeypatch
):
    def fill_up(file):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    # Flushing is where a file system reports that the last blocks did not fit.
    monkeypatch.setattr(config, "_sync", fill_up)
    moonpoly_command("compile", model, "-o", tmp_path / "m.so").failed_with(8, "No space left")
    assert _files(tmp_path) == ["linear.onnx"]


def test_a_disk_with_too_little_space_is_one_line(moonpoly_command, model, tmp_path, monkeypatch):
    full = config.shutil.disk_usage(tmp_path)._replace(free=1000)
    monkeypatch.setattr(config.shutil, "disk_usage", lambda folder: full)
    moonpoly_command("compile", model, "-o", tmp_path / "m.so").failed_with(8, "No space left")
    assert _files(tmp_path) == ["linear.onnx"]


def test_a_read_only_cache_is_one_line(moonpoly_command, model, tmp_path, empty_cache, monkeypatch):
    def refuse(*args, **kwargs):
        raise OSError(errno.EROFS, os.strerror(errno.EROFS))

    # Root may write into any folder, so the refusal is made where the operating system's would be.
    monkeypatch.setattr(config.tempfile, "mkdtemp", refuse)
    moonpoly_command("compile", model, "-o", tmp_path / "m.so").failed_with(
        8, "Read-only file system", "MOONPOLY_CACHE_DIR"
    )
    assert "m.so" not in _files(tmp_path)
