"""The fitted task-cost tables of the kept micro-kernels, as text that is committed."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from moonpoly.config import atomic_write
from moonpoly.error import ArtifactError, StorageError

_SCHEMA = 1


def save_costs(
    path: Path,
    kernels: Mapping[str, Mapping[str, Any]],
    *,
    grid: Mapping[str, Any],
    machine: Mapping[str, Any],
    environment: Mapping[str, str],
    records_path: Path,
) -> None:
    """Write the tables of kernels to ``path``, one kernel a line.

    ``grid`` holds the axes of the tables, ``machine`` the constants measured beside them. The file
    names the records it belongs to by their digest.

    Raises
    ------
    StorageError
        If the file can't be written.
    """
    head = {
        "schema": _SCHEMA,
        "records_digest": digest_of(records_path),
        "environment": dict(environment),
        "machine": dict(machine),
        "grid": dict(grid),
    }
    lines = [f"{json.dumps(key)}:{_compact(value)}" for key, value in head.items()]
    tables = ",\n".join(f"{json.dumps(name)}:{_compact(costs)}" for name, costs in kernels.items())
    path.parent.mkdir(parents=True, exist_ok=True)
    atomic_write(path, ("{" + ",\n".join(lines) + ',\n"kernels":{\n' + tables + "}}\n").encode())


def load_costs(path: Path, records_path: Path) -> dict[str, Any]:
    """Read the tables of ``path`` and check that they belong to the records.

    Raises
    ------
    StorageError
        If a file can't be read.
    ArtifactError
        If it is not a whole cost file, or belongs to other records.
    """
    try:
        costs = json.loads(path.read_text(encoding="utf-8"))
    except OSError as err:
        raise StorageError(
            f"can't read cost tables {path}: {err.strerror}; run `moonpoly tune` or install "
            f"moonpoly again"
        ) from err
    except ValueError as err:
        raise ArtifactError(f"cost tables {path} are damaged ({err}); {_mend(path)}") from err
    if not isinstance(costs, dict) or costs.get("schema") != _SCHEMA:
        found = costs.get("schema") if isinstance(costs, dict) else None
        raise ArtifactError(
            f"cost tables {path} have schema {found}, expected {_SCHEMA}; {_mend(path)}"
        )
    if costs["records_digest"] != digest_of(records_path):
        raise ArtifactError(
            f"cost tables {path} were fitted for other kernels than {records_path} holds; "
            f"{_mend(path)}"
        )
    return costs


def digest_of(path: Path) -> str:
    """Return the SHA-256 of a file's content, in hexadecimal.

    Raises
    ------
    StorageError
        If the file can't be read.
    """
    try:
        return hashlib.sha256(path.read_bytes()).hexdigest()
    except OSError as err:
        raise StorageError(f"can't read {path}: {err.strerror}; install moonpoly again") from err


def _mend(path: Path) -> str:
    return f"run `moonpoly calibrate`, or remove {path}"


def _compact(value: Any) -> str:
    return json.dumps(value, separators=(",", ":"))
