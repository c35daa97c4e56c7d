"""``moonpoly inspect`` and ``info``."""

from __future__ import annotations

import pytest

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
