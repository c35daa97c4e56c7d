"""An artifact on disk: found or built, checked, never trusted."""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from moonpoly.autotune.sources import current_sources, versions
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


def load_artifact(target: Target, workload: Workload) -> Artifact:
    """Return the artifact of a target and workload, built from its records if need be.

    It is kept in the user's cache and built again when what it is made of has changed: another
    tuning, a calibration. Two processes that need it at once build it once.

    Parameters
    ----------
    target
        The machine to have kernels for; it need not be this one.
    workload
        Operator and dtype.

    Raises
    ------
    ArtifactError
        If there are no records for the target, or the one in the cache is damaged.
    StorageError
        If the cache can't be written.
    """
    path = artifact_dir(target, workload)
    digest = current_sources(target, workload).digest()
    artifact = _cached(path, digest)
    if artifact is None:
        with _locked(path):
            # Another process may have built it while this one waited.
            artifact = _cached(path, digest)
            if artifact is None:
                from moonpoly.autotune.export import export

                artifact = export(target, workload)
    # The manifest is for the machine class; how many units plans are made for is this process's.
    manifest = {**artifact.manifest, "target": target.to_dict()}
    return Artifact(artifact.path, manifest)


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
    manifest = _read_manifest(path)
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


def _cached(path: Path, digest: str) -> Artifact | None:
    """Return the artifact in the cache, or None if there is none made of the same inputs."""
    if not path.exists():
        return None
    if _read_manifest(path).get("digest") != digest:
        return None
    return read_artifact(path)


def _read_manifest(path: Path) -> dict[str, Any]:
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


@contextlib.contextmanager
def _locked(path: Path) -> Iterator[None]:
    """Hold the lock of an artifact folder against other processes."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        stream = (path.parent / f".{path.name}.lock").open("w")
    except OSError as err:
        raise StorageError(
            f"can't write the cache {path.parent}: {err.strerror}; set MOONPOLY_CACHE_DIR to a "
            f"folder that can be written"
        ) from err
    with stream:
        fcntl.flock(stream, fcntl.LOCK_EX)
        yield
