"""Outcomes in a file, so that a long run can be taken up again where it was stopped."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

import onnx
from onnx_standard.outcome import Outcome, Status

import moonpoly
from moonpoly import config


class ForeignOutcomesError(Exception):
    """The file's outcomes are of another state of the compiler."""


class KeptOutcomes:
    """A file of outcomes, one a line after the state of the compiler that they are of.

    Parameters
    ----------
    path
        The file; it need not exist.
    state
        What tells this compiler from others, see `compiler_state`.

    Raises
    ------
    ForeignOutcomesError
        If the file is of another state, or of none: outcomes of two compilers don't add up to a
        report on either.
    """

    def __init__(self, path: Path, state: str) -> None:
        self._path = path
        self.outcomes: list[Outcome] = []
        text = path.read_text(encoding="utf-8") if path.exists() else ""
        lines = text.splitlines()
        if not lines:
            path.write_text(json.dumps({"state": state}) + "\n", encoding="utf-8")
            return
        first = json.loads(lines[0])
        taken_at = first.get("state") if isinstance(first, dict) else None
        if taken_at != state:
            raise ForeignOutcomesError(
                f"{path} holds outcomes of state {taken_at or 'unknown'}, this compiler is at "
                f"{state}; delete it, or give another file"
            )
        if not text.endswith("\n"):
            # A run that was killed has left half a line.
            path.write_text(text + "\n", encoding="utf-8")
        for line in lines[1:]:
            try:
                name, status, reason = json.loads(line)
            except ValueError:
                continue
            self.outcomes.append(Outcome(name, Status(status), reason))

    def add(self, outcome: Outcome) -> None:
        """Append an outcome."""
        with self._path.open("a", encoding="utf-8") as stream:
            row = [outcome.name, outcome.status.value, outcome.reason]
            stream.write(json.dumps(row) + "\n")


def compiler_state() -> str:
    """Return a digest of what decides an outcome: compiler, C++ library, cases and their judge."""
    sha = hashlib.sha256(onnx.__version__.encode())
    for folder in (Path(moonpoly.__file__).parent, Path(__file__).parent):
        for path in sorted(folder.rglob("*.py")):
            sha.update(path.relative_to(folder).as_posix().encode())
            sha.update(path.read_bytes())
    sha.update(config.runtime_library().read_bytes())
    return sha.hexdigest()[:12]
