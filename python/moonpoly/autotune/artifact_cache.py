"""The user's cache of artifacts: found there, or built once."""

from __future__ import annotations

import contextlib
import fcntl
from collections.abc import Iterator
from pathlib import Path

from moonpoly.autotune.artifact import Artifact, artifact_dir, read_artifact, read_manifest
from moonpoly.autotune.sources import current_sources
from moonpoly.error import StorageError
from moonpoly.target import Target
from moonpoly.workload import Workload


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


def _cached(path: Path, digest: str) -> Artifact | None:
    """Return the artifact in the cache, or None if there is none made of the same inputs."""
    if not path.exists():
        return None
    if read_manifest(path).get("digest") != digest:
        return None
    return read_artifact(path)


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
