"""An artifact on disk: checked, never trusted."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from moonpoly.autotune.sources import versions
from moonpoly.config import cache_dir
from moonpoly.error import ArtifactError, StorageError
from moonpoly.target import Target
from moonpoly.workload import Workload

SCHEMA = 1
MANIFEST, LIBRARY, OBJECT = "manifest.json", "kernels.so", "kernels.o"

_VERSION_NAMES = {"moonpoly": "moonpoly", "tvm": "apache-tvm", "tvm_ffi": "apache-tvm-ffi"}
# What a manifest must hold for anything else here to make sense: any, a CPU's and a GPU's.
_REQUIRED = {
    "target": dict,
    "op": str,
    "dtype": str,
    "digest": str,
    "grid": dict,
    "kernels": list,
    "machine": dict,
}
_REQUIRED_CPU = {"panel": int, "kernels_digest": str, "object_digest": str}
_REQUIRED_GPU = {"images": dict}


@dataclass(frozen=True)
class Artifact:
    """The micro-kernels of one target and workload, compiled.

    A CPU's are a library and an object file; a GPU's are images of machine code, which its manifest
    names.

    Parameters
    ----------
    path
        The folder.
    manifest
        What the selector reads: the kernel table, task costs and machine constants.
    """

    path: Path
    manifest: dict[str, Any]

    @property
    def lib_path(self) -> Path:
        """The shared library with the kernels, for running them."""
        return self.path / LIBRARY

    def images(self) -> dict[str, bytes]:
        """Return the images of a GPU's kernels by the names that the manifest gives them."""
        return {name: (self.path / name).read_bytes() for name in self.manifest["images"]}

    @property
    def object_path(self) -> Path:
        """The same kernels as an object file, for linking into a model."""
        return self.path / OBJECT


def read_artifact(path: Path) -> Artifact:
    """Read the artifact in a folder.

    Raises
    ------
    ArtifactError
        If it is truncated, foreign, or of another version; the message names the command that
        mends it.
    StorageError
        If a file can't be read.
    """
    manifest = read_manifest(path)
    mend = mend_command(manifest)
    for key, expected in versions().items():
        if manifest.get(key) != expected:
            raise ArtifactError(
                f"artifact {path} was made with {_VERSION_NAMES[key]} {manifest.get(key)}, this is "
                f"{_VERSION_NAMES[key]} {expected}; run `{mend}`"
            )
    of_gpu = "images" in manifest
    for key, kind in (_REQUIRED | (_REQUIRED_GPU if of_gpu else _REQUIRED_CPU)).items():
        if not isinstance(manifest.get(key), kind):
            raise ArtifactError(
                f"artifact {path} is damaged: its manifest lacks {key!r}; run `{mend}`"
            )
    expected_digests = (
        manifest["images"]
        if of_gpu
        else {LIBRARY: manifest["kernels_digest"], OBJECT: manifest["object_digest"]}
    )
    for name, expected in expected_digests.items():
        found = _digest(path / name)
        if found != expected:
            raise ArtifactError(
                f"artifact {path} is damaged: {name} has the digest {found[:12]}, its manifest "
                f"says {expected[:12]}; run `{mend}`"
            )
    return Artifact(path, manifest)


def artifact_dir(target: Target, workload: Workload) -> Path:
    """Return the folder in the cache where an artifact is kept."""
    return cache_dir() / "artifacts" / target.name / workload.key


def mend_command(manifest: dict[str, Any]) -> str:
    """Return the command that makes the artifact of a manifest anew, as far as it is readable."""
    target = manifest.get("target")
    name = target.get("name", "host") if isinstance(target, dict) else "host"
    op, dtype = manifest.get("op", "gemm"), manifest.get("dtype", "float32")
    return f"moonpoly export --target {name} --op {op} --dtype {dtype}"


def read_manifest(path: Path) -> dict[str, Any]:
    """Return the manifest of an artifact's folder, of this schema but otherwise unchecked.

    Raises
    ------
    ArtifactError
        If there is none, or it can't be understood.
    StorageError
        If it can't be read.
    """
    file = path / MANIFEST
    try:
        manifest = json.loads(file.read_text(encoding="utf-8"))
    except FileNotFoundError as err:
        raise ArtifactError(
            f"{path} is not an artifact: it has no {MANIFEST}; run `{mend_command({})}`"
        ) from err
    except OSError as err:
        raise StorageError(f"can't read {file}: {err.strerror}; mend its rights") from err
    except ValueError as err:
        raise ArtifactError(
            f"artifact {path} is damaged: {MANIFEST} is not whole JSON ({err}); run "
            f"`{mend_command({})}`"
        ) from err
    if not isinstance(manifest, dict) or manifest.get("schema") != SCHEMA:
        found = manifest.get("schema") if isinstance(manifest, dict) else None
        raise ArtifactError(
            f"artifact {path} has schema {found}, this moonpoly reads schema {SCHEMA}; run "
            f"`{mend_command(manifest if isinstance(manifest, dict) else {})}`"
        )
    return manifest


def _digest(path: Path) -> str:
    try:
        return hashlib.sha256(path.read_bytes()).hexdigest()
    except FileNotFoundError:
        return "missing"
    except OSError as err:
        raise StorageError(f"can't read {path}: {err.strerror}; mend its rights") from err
