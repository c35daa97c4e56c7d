"""From records and cost tables to an artifact: compile the kernels, write the manifest."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path
from typing import Any

from tvm import tirx

from moonpoly.autotune.artifact import (
    LIBRARY,
    MANIFEST,
    OBJECT,
    SCHEMA,
    Artifact,
    artifact_dir,
    read_artifact,
)
from moonpoly.autotune.candidates import Candidate, candidates
from moonpoly.autotune.costs import digest_of, load_costs
from moonpoly.autotune.generate import build_kernels, scheduled_kernel
from moonpoly.autotune.gpu.export import export_gpu
from moonpoly.autotune.progress import progress
from moonpoly.autotune.records import TuningRecord, load_records
from moonpoly.autotune.sources import Sources, current_sources, versions
from moonpoly.config import atomic_dir, require_space
from moonpoly.error import ArtifactError
from moonpoly.schedules import Tile
from moonpoly.target import Target
from moonpoly.workload import Workload

# Several times what the kernels of one workload take as an object file and a library.
_SPACE_BYTES = 16_000_000


def export(target: Target, workload: Workload, path: Path | None = None) -> Artifact:
    """Build the artifact of a target and workload from its records, without a search.

    Parameters
    ----------
    target, workload
        What to build.
    path
        The folder to write; the one in the cache that :func:`load_artifact` reads if None. It
        appears whole or not at all.

    Raises
    ------
    ArtifactError
        If records or cost tables are damaged or don't belong together.
    StorageError
        If the folder can't be written.
    """
    path = artifact_dir(target, workload) if path is None else Path(path)
    sources = current_sources(target, workload)
    records = load_records(sources.records)
    costs = load_costs(sources.costs, sources.records)
    chosen = candidates_of(records, target, workload)
    if target.is_gpu:
        return export_gpu(target, workload, path, sources, records, chosen, costs)
    with progress() as bar:
        step = bar.add_task(f"building {target.name} {workload.key}", total=len(records) + 2)
        functions = {}
        for candidate, record in zip(chosen, records, strict=True):
            functions[record.kernel] = rebuild(candidate, record)
            bar.advance(step)
        executable = build_kernels(functions, target)
        bar.advance(step)
        with atomic_dir(path) as folder:
            require_space(folder, _SPACE_BYTES)
            require_space(tempfile.gettempdir(), _SPACE_BYTES)
            executable.mod.write_to_file(str(folder / OBJECT), "o")
            executable.export_library(str(folder / LIBRARY))
            manifest = _manifest(target, workload, sources, records, costs)
            manifest["kernels_digest"] = digest_of(folder / LIBRARY)
            manifest["object_digest"] = digest_of(folder / OBJECT)
            (folder / MANIFEST).write_text(json.dumps(manifest), encoding="utf-8")
        bar.advance(step)
    return read_artifact(path)


def candidates_of(
    records: tuple[TuningRecord, ...], target: Target, workload: Workload
) -> tuple[Candidate, ...]:
    """Return the candidates that records belong to.

    Raises
    ------
    ArtifactError
        If a record is for a kernel that this target does not have.
    """
    known = {candidate.tile: candidate for candidate in candidates(target, workload)}
    chosen = []
    for record in records:
        candidate = known.get(Tile(record.family, record.um, record.un))
        # A tile of a GPU has several kernels, whose names say how they differ.
        if candidate is None or not (target.is_gpu or candidate.name == record.kernel):
            raise ArtifactError(
                f"the tuning records hold {record.kernel}, which {target.name} does not have; "
                f"run `moonpoly tune --target {target.name}`"
            )
        chosen.append(candidate)
    return tuple(chosen)


def rebuild(candidate: Candidate, record: TuningRecord) -> tirx.PrimFunc:
    """Return the scheduled kernel of a record.

    Raises
    ------
    ArtifactError
        If the record's trace does not fit the template.
    """
    try:
        return scheduled_kernel(candidate, record.trace)
    except (ValueError, TypeError, RuntimeError) as err:
        reason = str(err).partition("\n")[0]
        raise ArtifactError(
            f"the tuning record of {record.kernel} does not fit its template ({reason}); run "
            f"`moonpoly tune`"
        ) from err


def _manifest(
    target: Target,
    workload: Workload,
    sources: Sources,
    records: tuple[TuningRecord, ...],
    costs: dict[str, Any],
) -> dict[str, Any]:
    missing = [record.kernel for record in records if record.kernel not in costs["kernels"]]
    if missing:
        raise ArtifactError(
            f"cost tables {sources.costs} lack {', '.join(missing)}; run `moonpoly calibrate`"
        )
    return {
        "schema": SCHEMA,
        **versions(),
        "target": target.to_dict(),
        "op": workload.op,
        "dtype": workload.dtype,
        "panel": target.vector_lanes[workload.dtype],
        "digest": sources.digest(),
        "grid": costs["grid"],
        "kernels": [
            {
                "name": record.kernel,
                "family": record.family,
                "um": record.um,
                "un": record.un,
                "uk": record.decisions["unroll"],
                "cost": costs["kernels"][record.kernel],
            }
            for record in records
        ],
        "machine": costs["machine"],
    }
