"""The working folder of a tuning run: one folder a candidate, one file a finished step.

What a file holds is done; a run that was interrupted goes on with what is missing.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, astuple
from pathlib import Path
from typing import Any

from moonpoly.autotune.candidates import Candidate
from moonpoly.autotune.records import TuningRecord
from moonpoly.autotune.sample import TaskShape
from moonpoly.config import atomic_write

_WINNER, _SAMPLES = "winner.json", "samples.json"


class Workspace:
    """Steps of a tuning run kept on disk.

    Parameters
    ----------
    root
        The folder; made if missing.
    """

    def __init__(self, root: Path) -> None:
        self.root = root

    def winner(self, candidate: Candidate) -> TuningRecord | None:
        """Return the chosen schedule of a candidate, or None if it is not chosen yet."""
        saved = self._load(candidate, _WINNER)
        return None if saved is None else TuningRecord(**saved)

    def save_winner(self, candidate: Candidate, record: TuningRecord) -> None:
        """Keep the chosen schedule; samples of an earlier choice are dropped."""
        (self.root / candidate.name / _SAMPLES).unlink(missing_ok=True)
        self._save(candidate, _WINNER, asdict(record))

    def samples(self, candidate: Candidate) -> tuple[list[TaskShape], list[float]] | None:
        """Return the sampled shapes and their task costs in µs, or None if not sampled yet."""
        saved = self._load(candidate, _SAMPLES)
        if saved is None:
            return None
        return [TaskShape(*shape) for shape, _ in saved], [cost for _, cost in saved]

    def save_samples(
        self, candidate: Candidate, shapes: Sequence[TaskShape], costs_us: Sequence[float]
    ) -> None:
        """Keep a candidate's samples."""
        rows = [(astuple(s), cost) for s, cost in zip(shapes, costs_us, strict=True)]
        self._save(candidate, _SAMPLES, rows)

    def _load(self, candidate: Candidate, name: str) -> Any:
        path = self.root / candidate.name / name
        return json.loads(path.read_text(encoding="utf-8")) if path.exists() else None

    def _save(self, candidate: Candidate, name: str, value: object) -> None:
        folder = self.root / candidate.name
        folder.mkdir(parents=True, exist_ok=True)
        atomic_write(folder / name, json.dumps(value).encode())
