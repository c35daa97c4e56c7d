"""Model files exported from torch and transformers, in an environment that has them."""

from __future__ import annotations

import functools
import hashlib
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from moonpoly import config

from .packages import ModelFileError

_EXPORTERS = Path(__file__).parent / "exporters"
_NEEDED = ("torch", "torchvision", "transformers", "onnxscript")


@dataclass(frozen=True)
class TorchExport:
    """An architecture with random weights, exported with open axes.

    Attributes
    ----------
    architecture
        One of the names in ``exporters/``.
    exporter
        ``script`` (TorchScript) or ``dynamo``.
    """

    architecture: str
    exporter: str

    def path(self) -> Path:
        """Give the file; it stays in the user's cache, until the exporters change."""
        folder = config.cache_dir() / "models" / f"torch-{_digest()}"
        path = folder / f"{self.architecture}-{self.exporter}.onnx"
        if path.is_file():
            return path
        python = config.export_python() or sys.executable
        _check(python)
        folder.mkdir(parents=True, exist_ok=True)
        with config.atomic_file(path) as temporary:
            done = subprocess.run(
                [python, _EXPORTERS, self.architecture, self.exporter, temporary],
                capture_output=True,
                text=True,
                check=False,
            )
            if done.returncode != 0:
                last = (done.stderr.strip().splitlines() or ["no message"])[-1]
                raise ModelFileError(
                    f"the export of {self.architecture} by {self.exporter} ended with "
                    f"{done.returncode}: {last}"
                )
        return path


@functools.cache
def _digest() -> str:
    """Name the state of the exporters: a file that an older one made is not taken for a new one."""
    sha = hashlib.sha256()
    for path in sorted(_EXPORTERS.glob("*.py")):
        sha.update(path.read_bytes())
    return sha.hexdigest()[:12]


@functools.cache
def _check(python: str) -> None:
    missing = (
        "import importlib.util as u, sys; print(*(n for n in sys.argv[1:] if not u.find_spec(n)))"
    )
    try:
        done = subprocess.run(
            [python, "-c", missing, *_NEEDED], capture_output=True, text=True, check=False
        )
    except OSError as err:
        raise ModelFileError(f"{config.ENV_EXPORT_PYTHON}: can't run {python!r}: {err}") from err
    if done.returncode != 0 or done.stdout.strip():
        raise ModelFileError(
            f"exporting models needs {', '.join(_NEEDED)}; {python} lacks "
            f"{', '.join(done.stdout.split()) or 'a working interpreter'}; install them, or set "
            f"{config.ENV_EXPORT_PYTHON} to the interpreter of an environment that has them"
        )
