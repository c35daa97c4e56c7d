"""The scripts find a Python that is new enough, or say what is needed."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

SCRIPTS = Path(__file__).parents[1] / "scripts"


def _source(command, tmp_path, **variables):
    return subprocess.run(
        ["bash", "-c", f"source {SCRIPTS / 'environment.sh'}; {command}"],
        env={"PATH": f"{tmp_path}:/usr/bin:/bin", **variables},
        capture_output=True,
        text=True,
        check=False,
    )


def _pretend_python(folder, name, *, new_enough):
    path = folder / name
    path.write_text(
        "#!/bin/sh\n"
        '[ "$1" = --version ] && { echo "Python 3.9.2"; exit 0; }\n'
        f"exit {0 if new_enough else 1}\n"
    )
    path.chmod(0o755)
    return path


def test_an_old_python_is_refused_with_what_is_needed(tmp_path):
    old = _pretend_python(tmp_path, "oldpython", new_enough=False)
    result = _source("find_python", tmp_path, PYTHON=str(old))
    assert result.returncode == 1
    assert "moonpoly: error: Python 3.11 or newer is needed" in result.stderr


def test_the_first_python_that_is_new_enough_is_taken(tmp_path):
    for name in ("python3.13", "python3.12", "python3"):
        _pretend_python(tmp_path, name, new_enough=False)
    wanted = _pretend_python(tmp_path, "python3.11", new_enough=True)
    result = _source("find_python", tmp_path)
    assert result.stdout.strip() == str(wanted), result.stderr


@pytest.mark.parametrize("name", ["environment.sh", "lint", "quickstart", "test", "../.ci/run"])
def test_every_script_is_valid_bash(name):
    subprocess.run(["bash", "-n", str(SCRIPTS / name)], check=True)
