"""The working folder of a tuning run for a GPU: one folder a tile, one file a finished step."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path

from moonpoly.autotune.candidates import Candidate
from moonpoly.autotune.gpu.compile import Kernel
from moonpoly.autotune.gpu.cost_model import LaunchSample
from moonpoly.autotune.gpu.machine import GpuConstants
from moonpoly.autotune.gpu.program import Program
from moonpoly.config import atomic_write

_CONSTANTS = "machine.json"


class GpuWorkspace:
    """Steps of a tuning run kept on disk.

    Parameters
    ----------
    root
        The folder; made if missing.
    """

    def __init__(self, root: Path) -> None:
        self.root = root

    def save_image(self, group: str, kernel: Kernel, image: bytes) -> None:
        """Keep a compiled program, of a tile by its name or of another group."""
        folder = self.root / group
        folder.mkdir(parents=True, exist_ok=True)
        about = asdict(replace(kernel, program=kernel.program.name))  # type: ignore[arg-type]
        atomic_write(folder / f"{kernel.program.name}.cubin", image)
        atomic_write(folder / f"{kernel.program.name}.json", json.dumps(about).encode())

    def image(self, group: str, program: Program) -> tuple[Kernel, bytes] | None:
        """Return a compiled program, or None if it was not kept."""
        folder = self.root / group
        path = folder / f"{program.name}.json"
        if not path.exists():
            return None
        about = json.loads(path.read_text(encoding="utf-8"))
        about |= {"program": program, "parameters": tuple(about["parameters"])}
        return Kernel(**about), (folder / f"{program.name}.cubin").read_bytes()

    def save_samples(
        self, candidate: Candidate, program: Program, samples: Sequence[LaunchSample]
    ) -> None:
        """Keep the measured launches of a program."""
        rows = [asdict(sample) for sample in samples]
        atomic_write(self._samples(candidate, program), json.dumps(rows).encode())

    def samples(self, candidate: Candidate, program: Program) -> list[LaunchSample] | None:
        """Return the measured launches of a program, or None if there are none yet."""
        path = self._samples(candidate, program)
        if not path.exists():
            return None
        return [LaunchSample(**row) for row in json.loads(path.read_text(encoding="utf-8"))]

    def save_constants(self, constants: GpuConstants) -> None:
        """Keep the measured constants of the GPU."""
        atomic_write(self.root / _CONSTANTS, json.dumps(asdict(constants)).encode())

    def constants(self) -> GpuConstants | None:
        """Return the measured constants of the GPU, or None if there are none yet."""
        path = self.root / _CONSTANTS
        if not path.exists():
            return None
        return GpuConstants(**json.loads(path.read_text(encoding="utf-8")))

    def _samples(self, candidate: Candidate, program: Program) -> Path:
        return self.root / candidate.name / f"{program.name}.samples.json"
