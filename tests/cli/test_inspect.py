"""``moonpoly inspect`` and ``info``."""

from __future__ import annotations

import onnx
import pytest
from cli import onnx_models

import moonpoly


def test_shows_a_compiled_model(moonpoly_command, tiny_path):
    result = moonpoly_command("inspect", tiny_path)
    assert result.code == 0
    for word in ("tiny", "x86-avx2", "y:0", "[n, m]", "positive"):
        assert word in result.out


def test_info_names_versions_and_the_target(moonpoly_command):
    result = moonpoly_command("info")
    assert result.code == 0
    for word in (moonpoly.__version__, "apache-tvm", "cache", "threads"):
        assert word in result.out


@pytest.mark.parametrize(
    ("words", "code", "message"),
    [
        (("no-such.so",), 8, "no-such.so"),
        (("plan", "1", "2"), 2, "three numbers"),
        (("plan", "1", "2", "x"), 2, "three numbers"),
        (("plan", "1", "2", "0"), 5, "K must be at least 1"),
        (("a.so", "b.so"), 2, "MODEL.so"),
        (("a.so", "--svg", "b.svg"), 2, "inspect plan"),
        (("plan", "8", "8", "8", "--svg", "/no/such/folder/p.svg"), 8, "can't write"),
        (("plan", "8", "8", "8", "--target", "z80"), 7, "unknown target 'z80'"),
        (("plan", "8", "8", "8", "--b", "diagonal"), 2, "diagonal"),
        ((), 2, "WHAT"),
    ],
)
def test_a_wrong_question_is_one_line(moonpoly_command, words, code, message):
    moonpoly_command("inspect", *words).failed_with(code, message)


def test_an_unknown_command_is_one_line(moonpoly_command):
    moonpoly_command("compyle").failed_with(2, "compyle")


def test_no_command_prints_the_help(moonpoly_command):
    result = moonpoly_command()
    assert result.code == 2
    assert "compile" in result.out + result.err


@pytest.fixture
def towers(tmp_path):
    path = tmp_path / "towers.onnx"
    onnx.save(onnx_models.two_towers(), path)
    return path


def _row(out: str, *words: str) -> str:
    """Return the only line with all words in it."""
    (line,) = [line for line in out.splitlines() if all(word in line.split() for word in words)]
    return line


def test_an_onnx_model_is_shown_with_its_dims_and_what_was_learned(moonpoly_command, towers):
    result = moonpoly_command("inspect", towers)
    assert result.code == 0, result.err
    assert "[rows, 5]" in _row(result.out, "input", "x")
    assert "[lines, 7]" in _row(result.out, "input", "z")
    # A dimension without a name is called by its place.
    assert "[u_dim0, 3]" in _row(result.out, "input", "u")
    assert "[u_dim0 * 3]" in _row(result.out, "output", "v")
    assert _row(result.out, "equal").split()[1:] == ["rows", "=", "lines"]
    assert "epilogue" in _row(result.out, "project", "polymerized")
    assert "reading" in result.out and "importing" in result.out


@pytest.mark.parametrize(
    ("options", "present", "absent"),
    [
        (("--dim", "rows=128"), ("[128, 5]", "[128, 20]"), ("rows",)),
        (("--dim", "u_dim0=4"), ("[4, 3]", "[12]"), ("u_dim0",)),
        (("--dim", "rows=128", "--dim", "u_dim0=4"), ("[128, 20]", "[12]"), ("rows", "u_dim0")),
        (("--dim-hint", "rows=1:512"), ("rows = 1 to 512", "[rows, 5]"), ()),
        (("--dim", "u_dim0=4", "--dim-hint", "rows=8"), ("rows = 8 to 8", "[12]"), ("u_dim0",)),
    ],
)
def test_dims_are_fixed_and_hints_are_shown(moonpoly_command, towers, options, present, absent):
    result = moonpoly_command("inspect", towers, *options)
    assert result.code == 0, result.err
    for text in present:
        assert text in result.out
    for text in absent:
        assert text not in result.out


@pytest.mark.parametrize(
    ("options", "code", "words"),
    [
        (("--dim", "row=128"), 5, ("no symbolic dimension 'row'", "lines, rows, u_dim0")),
        (("--dim-hint", "row=1:9"), 5, ("no symbolic dimension 'row'", "lines, rows, u_dim0")),
        (("--dim", "rows=3", "--dim", "lines=4"), 3, ("'join'", "sizes 3 and 4", "'x'", "'z'")),
        (("--dim", "rows=3", "--dim-hint", "rows=1:9"), 5, ("'rows' has the one size 3", "1:9")),
        (("--dim", "rows=3", "--dim", "rows=4"), 2, ("two sizes, 3 and 4",)),
        (("--dim-hint", "rows=1:3", "--dim-hint", "rows=4"), 2, ("rows two ranges",)),
        (("--dim", "rows=0"), 5, ("at least 1, got 0",)),
        (("--dim", "rows"), 2, ("seq=128",)),
        (("--dim", "rows=-1"), 2, ("seq=128",)),
        (("--dim-hint", "rows=9:3"), 2, ("seq=1:512",)),
    ],
)
def test_wrong_dims_are_one_line(moonpoly_command, towers, options, code, words):
    moonpoly_command("inspect", towers, *options).failed_with(code, *words)


def test_dims_of_what_has_none_are_one_line(moonpoly_command, tiny_path):
    moonpoly_command("inspect", tiny_path, "--dim", "n=3").failed_with(2, "MODEL.onnx")


def test_every_operator_that_cannot_be_compiled_is_shown_at_once(moonpoly_command, tmp_path):
    path = tmp_path / "strange.onnx"
    onnx.save(onnx_models.refused_thrice(), path)
    result = moonpoly_command("inspect", path)
    result.failed_with(4, "3 unsupported operators", "'strange'", "'widen'", "'last'")
    assert "[rows, 12]" in _row(result.out, "input", "x")
    assert "[rows, 20]" in _row(result.out, "output", "y")
    for node, reason in (("strange", "unknown"), ("last", "unknown"), ("widen", "mirror")):
        assert reason in _row(result.out, node)
    assert "project" not in result.out
