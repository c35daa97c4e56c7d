"""Where the text comes from that an artifact is made of.

The records and cost tables that were installed with the package, unless this user tuned or
calibrated: those lie in the cache and are used from then on.
"""

from __future__ import annotations

import hashlib
import importlib
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path

from moonpoly.config import cache_dir, package_version
from moonpoly.error import ArtifactError, StorageError
from moonpoly.schedules import records_path
from moonpoly.target import Target
from moonpoly.workload import Workload

# Modules of this package that decide what code a record becomes.
_CODE = (
    "export.py",
    "generate.py",
    "prefetch.py",
    "registers.py",
    "gpu/compile.py",
    "gpu/export.py",
    "gpu/program.py",
)


@dataclass(frozen=True)
class Sources:
    """The two text files of one target and workload.

    Parameters
    ----------
    records
        The tuning records of the kept micro-kernels.
    costs
        Their task-cost tables.
    """

    records: Path
    costs: Path

    def digest(self) -> str:
        """Return the SHA-256 of everything that decides what the artifact contains.

        Raises
        ------
        StorageError
            If a file can't be read.
        """
        digest = hashlib.sha256()
        for text in (*versions().values(), str(sorted(versions()))):
            digest.update(text.encode() + b"\0")
        here = Path(__file__).parent
        code = [here / name for name in _CODE]
        for package in ("schedules", "tir_templates"):
            code += sorted(_folder_of(package).rglob("*.py"))
        for path in (self.records, self.costs, *code):
            try:
                digest.update(path.name.encode() + b"\0" + path.read_bytes() + b"\0")
            except OSError as err:
                raise StorageError(
                    f"can't read {path}: {err.strerror}; install moonpoly again"
                ) from err
        return digest.hexdigest()


def versions() -> dict[str, str]:
    """Return the versions that a compiled kernel is bound to, by the manifest's names."""
    return {
        "moonpoly": package_version(),
        "tvm": version("apache-tvm"),
        "tvm_ffi": version("apache-tvm-ffi"),
    }


def installed_sources(target: Target, workload: Workload) -> Sources:
    """Return the files that belong to the package."""
    tables = _folder_of("artifacts")
    return Sources(
        records_path(target.name, workload.key), tables / target.name / workload.key / "costs.json"
    )


def own_sources(target: Target, workload: Workload) -> Sources:
    """Return the files in the cache that ``tune`` and ``calibrate`` write."""
    folder = cache_dir() / "tuned" / target.name / workload.key
    return Sources(folder / "records.jsonl", folder / "costs.json")


def current_sources(target: Target, workload: Workload) -> Sources:
    """Return what an artifact is made of now: each file of the user's own where there is one.

    Where nobody has tuned for the workload itself, they are those of one that runs alike.

    Raises
    ------
    ArtifactError
        If nobody has tuned for the target yet.
    """
    for each in (workload, *workload.likes):
        own, installed = own_sources(target, each), installed_sources(target, each)
        # Costs that this workload was calibrated with are for whichever records it has.
        costs = (own_sources(target, workload).costs, own.costs, installed.costs)
        sources = Sources(
            own.records if own.records.exists() else installed.records,
            next((path for path in costs if path.exists()), installed.costs),
        )
        if sources.records.exists() and sources.costs.exists():
            return sources
    raise ArtifactError(
        f"no tuning records for {workload.key} on {target.name}; run "
        f"`moonpoly tune --target {target.name} --op {workload.op} --dtype {workload.dtype}`"
    )


def _folder_of(package: str) -> Path:
    """Return the folder of a part of moonpoly; one that holds text only has no module file."""
    return Path(next(iter(importlib.import_module(f"moonpoly.{package}").__path__)))
