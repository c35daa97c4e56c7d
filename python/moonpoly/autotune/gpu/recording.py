"""Record launches step by step, each kept in a file so that an interrupted run goes on."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from operator import methodcaller
from pathlib import Path
from typing import Any

from moonpoly.autotune.artifact import Artifact
from moonpoly.autotune.gpu.record import Record, RecordWorker
from moonpoly.autotune.gpu.shapes import Shape, operand_bytes
from moonpoly.autotune.interrupt import between_steps
from moonpoly.autotune.progress import progress
from moonpoly.config import atomic_write
from moonpoly.error import TuneError
from moonpoly.workload import Workload

# Launches that are predicted to take more times the least are left out, unless told otherwise.
_HOPELESS_RATIO = 2.0
# So many steps may fail before it is the kernels that are to blame.
_MOST_FAILURES = 3


class LaunchLog:
    """The records of finished steps, a step a line.

    Parameters
    ----------
    path
        The file; made if missing. A line that was not written to its end is dropped.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        path.parent.mkdir(parents=True, exist_ok=True)
        text = path.read_text(encoding="utf-8") if path.exists() else ""
        whole, _, part = text.rpartition("\n")
        if part:
            atomic_write(path, f"{whole}\n".encode() if whole else b"")
        rows = [json.loads(line) for line in whole.splitlines()]
        self._records: dict[str, list[Record]] = {row["step"]: row["records"] for row in rows}

    def add(self, step: str, records: Sequence[Record]) -> None:
        """Keep the records of a step."""
        self._records[step] = list(records)
        line = json.dumps({"step": step, "records": records}, separators=(",", ":"))
        with self._path.open("a", encoding="utf-8") as file:
            file.write(f"{line}\n")

    def of(self, step: str) -> list[Record] | None:
        """Return the records of a step, or None if it is not finished yet."""
        return self._records.get(step)


def record(
    artifact: Artifact,
    shapes: Sequence[Shape],
    ranges: Mapping[str, Sequence[Shape]],
    folder: Path,
    ratio: float = _HOPELESS_RATIO,
) -> list[Record]:
    """Return what launches of an artifact's kernels take on the GPU of this machine.

    Parameters
    ----------
    artifact
        The kernels.
    shapes
        Shapes to launch all plans on that may be good.
    ranges
        By kernel, shapes that only its own are launched on.
    folder
        Where what is finished is kept, for each set of images in a file of its own.
    ratio
        Launches that are predicted to take more times the least are left out.

    Raises
    ------
    TuneError
        If several steps fail. What is finished stays.
    """
    log = LaunchLog(folder / f"{_digest(artifact.manifest)}.jsonl")
    steps = _steps(shapes, ranges, ratio)
    workload = Workload("gemm", artifact.manifest["dtype"], artifact.manifest["out_dtype"])
    num_bytes = operand_bytes([*shapes, *(s for each in ranges.values() for s in each)], workload)
    failures = []
    with (
        progress() as bar,
        between_steps() as check,
        RecordWorker(artifact.path, num_bytes) as worker,
    ):
        for name, step in bar.track(steps.items(), description="recording launches"):
            check()
            if log.of(name) is None:
                try:
                    log.add(name, step(worker))
                except TuneError as err:
                    failures.append(str(err))
            if len(failures) >= _MOST_FAILURES:
                raise TuneError(f"launches failed {len(failures)} times; the last: {failures[-1]}")
    return [record for name in steps for record in log.of(name) or []]


def _steps(
    shapes: Sequence[Shape], ranges: Mapping[str, Sequence[Shape]], ratio: float
) -> dict[str, Callable[[RecordWorker], list[Record]]]:
    """Return what to ask of a worker, by the name of each step."""
    steps: dict[str, Callable[[RecordWorker], list[Record]]] = {}
    for shape in shapes:
        steps["x".join(map(str, shape))] = methodcaller("of_shape", shape, ratio)
    for kernel, each in ranges.items():
        steps[kernel] = methodcaller("of_kernel", kernel, each, ratio)
    return steps


def _digest(manifest: Mapping[str, Any]) -> str:
    """Return what tells sets of kernels apart, whatever their costs are."""
    names = [kernel["name"] for kernel in manifest["kernels"]]
    text = json.dumps([manifest["images"], names], sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:16]
