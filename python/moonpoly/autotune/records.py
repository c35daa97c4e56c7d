"""Tuning records: the schedule found for each micro-kernel, as text that is committed.

One JSON object a line. A record holds the trace, not the scheduled program: the kernel is rebuilt
from the template, so that a mended template needs no new search.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from moonpoly.config import atomic_write
from moonpoly.error import ArtifactError, StorageError


@dataclass(frozen=True)
class TuningRecord:
    """The schedule of one micro-kernel and how it was found.

    Parameters
    ----------
    kernel
        The micro-kernel's name.
    family, um, un
        Its tile.
    trace
        MetaSchedule's trace in its JSON form.
    decisions
        What was sampled, by name; readable, the trace is what counts.
    gflops
        Speed in GFLOP/s in each context that the choice was made on.
    trials
        Schedules measured for this tile.
    environment
        The processor and the TVM version it was measured with.
    """

    kernel: str
    family: str
    um: int
    un: int
    trace: Any
    decisions: dict[str, int]
    gflops: dict[str, float]
    trials: int
    environment: dict[str, str]


def save_records(path: Path, records: Iterable[TuningRecord]) -> None:
    """Write records to ``path``, one a line, in the order given.

    Raises
    ------
    StorageError
        If the file can't be written.
    """
    lines = [json.dumps(asdict(record), separators=(",", ":")) for record in records]
    atomic_write(path, ("\n".join(lines) + "\n").encode())


def load_records(path: Path) -> tuple[TuningRecord, ...]:
    """Read the records of a file.

    Raises
    ------
    StorageError
        If the file can't be read.
    ArtifactError
        If a line is not a whole record.
    """
    try:
        text = path.read_text(encoding="utf-8")
    except OSError as err:
        raise StorageError(
            f"can't read tuning records {path}: {err.strerror}; run `moonpoly tune` or install "
            f"moonpoly again"
        ) from err
    records = []
    for number, line in enumerate(text.splitlines(), start=1):
        try:
            records.append(TuningRecord(**json.loads(line)))
        except (ValueError, TypeError) as err:
            raise ArtifactError(
                f"line {number} of tuning records {path} is damaged ({err}); restore the file or "
                f"run `moonpoly tune`"
            ) from err
    return tuple(records)
