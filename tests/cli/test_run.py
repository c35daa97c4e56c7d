"""``moonpoly run``: inputs from a file or made, outputs to a file, timing, and bad input."""

from __future__ import annotations

import errno
import os

import numpy as np
import pytest

from moonpoly import config


@pytest.fixture
def arrays():
    return {
        "x": np.linspace(-1, 1, 12, dtype=np.float32).reshape(3, 4),
        "y:0": np.ones((3, 2), np.float32),
    }


@pytest.fixture
def inputs(tmp_path, arrays):
    path = tmp_path / "in.npz"
    np.savez(path, **arrays)
    return path


def test_reads_inputs_and_writes_outputs(moonpoly_command, tiny_path, inputs, arrays, tmp_path):
    result = moonpoly_command("run", tiny_path, "--inputs", inputs, "--outputs", tmp_path / "o.npz")
    assert result.code == 0
    with np.load(tmp_path / "o.npz") as got:
        assert sorted(got.files) == ["next", "positive"]
        np.testing.assert_array_equal(got["positive"], np.maximum(arrays["x"], 0))


def test_makes_inputs_and_derives_shapes_from_shared_symbols(moonpoly_command, tiny_path):
    result = moonpoly_command("run", tiny_path, "--fill", "random", "--shape", "y:0=3x5")
    assert result.code == 0
    assert "3x4" in result.out and "3x5" in result.out


def test_prints_times(moonpoly_command, tiny_path):
    result = moonpoly_command(
        "run", tiny_path, "--fill", "ones", "--shape", "y:0=2x2", "--print-time", "--repeat", 3
    )
    assert result.code == 0
    assert "over 3 calls" in result.out


@pytest.mark.parametrize(
    ("options", "code", "word"),
    [
        ((), 2, "--inputs FILE.npz or --fill"),
        (("--fill", "random", "--shape", "x=3by4"), 2, "input_ids=2x37"),
        (("--fill", "sevens"), 2, "sevens"),
        (("--fill", "ones", "--repeat", "0"), 2, "repeat"),
        (("--fill", "ones", "--no-such-option"), 2, "--no-such-option"),
        (("--fill", "ones", "--shape", "z=3x4"), 5, "unknown input 'z'"),
        (("--fill", "ones", "--shape", "x=3x4x5"), 5, "must have rank 2"),
        (("--fill", "ones", "--shape", "x=3x5", "--shape", "y:0=3x5"), 5, "must have 4 along axis"),
        (("--fill", "ones", "--shape", "x=3x4", "--shape", "y:0=2x5"), 5, "dimension n"),
        (("--fill", "ones", "--shape", "x=3x4"), 5, "m is unknown"),
    ],
)
def test_a_wrong_option_or_shape_is_one_line(moonpoly_command, tiny_path, options, code, word):
    moonpoly_command("run", tiny_path, *options).failed_with(code, word)


@pytest.mark.parametrize("size", [0, 10, 200])
def test_a_truncated_input_file_is_one_line(moonpoly_command, tiny_path, inputs, size):
    inputs.write_bytes(inputs.read_bytes()[:size])
    moonpoly_command("run", tiny_path, "--inputs", inputs).failed_with(5, "in.npz")


def test_an_input_file_with_python_objects_is_refused(moonpoly_command, tiny_path, tmp_path):
    np.savez(tmp_path / "in.npz", x=np.array([{}], dtype=object))
    moonpoly_command("run", tiny_path, "--inputs", tmp_path / "in.npz").failed_with(5, "in.npz")


def test_a_wrong_dtype_is_one_line(moonpoly_command, tiny_path, inputs, arrays):
    np.savez(inputs, **(arrays | {"x": arrays["x"].astype(np.float64)}))
    moonpoly_command("run", tiny_path, "--inputs", inputs).failed_with(
        5, "'x' must be float32, got float64"
    )


def test_a_missing_model_is_one_line(moonpoly_command, tmp_path):
    moonpoly_command("run", tmp_path / "no.so", "--fill", "ones").failed_with(8, "no.so")


@pytest.mark.parametrize("part", [0.2, 0.8])
def test_a_truncated_model_is_one_line(moonpoly_command, tiny_path, tmp_path, part):
    data = tiny_path.read_bytes()
    cut = tmp_path / "cut.so"
    cut.write_bytes(data[: int(len(data) * part)])
    moonpoly_command("run", cut, "--fill", "ones").failed_with(6, "truncated")


def test_a_foreign_model_is_one_line(moonpoly_command, tmp_path):
    foreign = tmp_path / "readme.so"
    foreign.write_text("not a library")
    moonpoly_command("run", foreign, "--fill", "ones").failed_with(6, "not a compiled model")


def test_an_unwritable_output_is_one_line_and_leaves_nothing(
    moonpoly_command, tiny_path, inputs, tmp_path
):
    target = tmp_path / "missing" / "out.npz"
    result = moonpoly_command("run", tiny_path, "--inputs", inputs, "--outputs", target)
    result.failed_with(8, "can't write")
    assert not target.parent.exists()


def test_a_read_only_folder_is_one_line(moonpoly_command, tiny_path, inputs, tmp_path, monkeypatch):
    def refuse(*args, **kwargs):
        raise OSError(errno.EROFS, os.strerror(errno.EROFS))

    # Root may write into any folder, so the refusal is made where the operating system's would be.
    monkeypatch.setattr(config.tempfile, "NamedTemporaryFile", refuse)
    moonpoly_command(
        "run", tiny_path, "--inputs", inputs, "--outputs", tmp_path / "o.npz"
    ).failed_with(8, "Read-only file system")


def test_verbose_shows_the_traceback(tiny_path):
    from moonpoly.cli import main
    from moonpoly.error import StorageError

    with pytest.raises(StorageError):
        main(["run", "no-such-model.so", "--fill", "ones", "--verbose"])
