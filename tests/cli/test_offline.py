"""Options and errors of ``tune``, ``export`` and ``calibrate``; their work is tested elsewhere."""

from __future__ import annotations

import pytest


@pytest.mark.parametrize("command", ["tune", "export", "calibrate"])
@pytest.mark.parametrize(
    ("options", "code", "word"),
    [
        (("--target", "z80"), 7, "unknown target 'z80'"),
        (("--op", "sort"), 4, "can't tune operator 'sort'"),
        (("--dtype", "float7"), 4, "can't tune dtype 'float7'"),
        (("--quick",), 2, "--quick"),
    ],
)
def test_a_wrong_option_is_one_line(moonpoly_command, command, options, code, word):
    moonpoly_command(command, *options).failed_with(code, word)


def test_no_trials_is_one_line(moonpoly_command):
    moonpoly_command("tune", "--trials", "0").failed_with(2, "trials")


@pytest.mark.parametrize("command", ["tune", "calibrate"])
def test_launches_are_refused_for_a_processor(moonpoly_command, command):
    moonpoly_command(command, "--target", "x86-avx2", "--launches", "9").failed_with(9, "on GPUs")


def test_only_costs_of_gpus_are_refined(moonpoly_command):
    moonpoly_command("calibrate", "--target", "x86-avx2", "--refine").failed_with(
        9, "leave --refine"
    )


def test_no_number_of_measurements_goes_with_costs_that_are_guessed(moonpoly_command):
    options = ("--target", "cuda-sm90a", "--dtype", "int8", "--like", "float16", "--launches", "9")
    moonpoly_command("tune", *options).failed_with(2, "leave --trials and --launches")


@pytest.mark.parametrize("command", ["tune", "calibrate"])
def test_a_target_that_this_machine_lacks_is_one_line(moonpoly_command, command, monkeypatch):
    monkeypatch.setattr("moonpoly.target.host_features", lambda: frozenset({"avx2", "fma"}))
    moonpoly_command(command, "--target", "x86-avx512").failed_with(7, "x86-avx512 needs avx512f")


def test_a_machine_without_vectors_is_one_line(moonpoly_command, monkeypatch):
    monkeypatch.setattr("moonpoly.target.host_features", lambda: frozenset())
    moonpoly_command("tune").failed_with(7, "AVX2 and FMA is needed")


def test_an_export_into_a_file_is_one_line(moonpoly_command, tmp_path):
    (tmp_path / "file").write_text("")
    moonpoly_command("export", "-o", tmp_path / "file" / "artifact").failed_with(8, "can't write")


@pytest.mark.parametrize(
    ("content", "word"),
    [
        (None, "it has no manifest.json"),
        ("", "not whole JSON"),
        ('{"schema": 1, "moonpoly": ', "not whole JSON"),
        ('{"schema": 99}', "schema 99"),
        ('{"schema": 1, "moonpoly": "0.0.1"}', "moonpoly 0.0.1"),
    ],
)
def test_a_damaged_or_foreign_artifact_is_one_line(moonpoly_command, tmp_path, content, word):
    if content is not None:
        (tmp_path / "manifest.json").write_text(content)
    moonpoly_command("inspect", "artifact", tmp_path).failed_with(6, word, "moonpoly export")
