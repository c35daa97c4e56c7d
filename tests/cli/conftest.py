"""Runs the command line in this process and keeps what it printed."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from moonpoly.cli import main


@dataclass(frozen=True)
class Outcome:
    """Exit code and output of one command."""

    code: int
    out: str
    err: str

    def failed_with(self, code: int, *words: str) -> None:
        """Check for one error line with every word in it, and the exit code."""
        assert self.code == code, self.err
        assert self.err.startswith("moonpoly: error: "), self.err
        assert self.err.count("\n") == 1 and self.err.endswith("\n"), self.err
        for word in words:
            assert word in self.err


@pytest.fixture
def moonpoly_command(capsys):
    def run(*words):
        with pytest.raises(SystemExit) as caught:
            main([str(word) for word in words])
        captured = capsys.readouterr()
        return Outcome(caught.value.code, captured.out, captured.err)

    return run
