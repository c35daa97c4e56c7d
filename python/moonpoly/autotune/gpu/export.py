"""From records and cost tables to a GPU's artifact: compile the kernels, write the manifest."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from moonpoly.autotune.artifact import MANIFEST, SCHEMA, Artifact, read_artifact
from moonpoly.autotune.candidates import Candidate, space_of
from moonpoly.autotune.costs import digest_of
from moonpoly.autotune.gpu.compile import Kernel, compile_programs, compiler_path
from moonpoly.autotune.gpu.program import (
    Program,
    TileConfig,
    merge_programs,
    program_of_trace,
    recorded_names,
)
from moonpoly.autotune.gpu.search import compile_pool
from moonpoly.autotune.progress import progress
from moonpoly.autotune.records import TuningRecord
from moonpoly.autotune.sources import Sources, versions
from moonpoly.config import atomic_dir, require_space
from moonpoly.error import ArtifactError, TuneError
from moonpoly.target import Target
from moonpoly.tir_templates.wgmma.config import WgmmaConfig
from moonpoly.tir_templates.wgmma.merge import ring_of
from moonpoly.workload import Workload

# Kernels that are compiled together: headers are read once, and few enough for every core to work.
_KERNELS_OF_IMAGE = 4
_SPACE_BYTES = 64_000_000


def export_gpu(
    target: Target,
    workload: Workload,
    path: Path,
    sources: Sources,
    records: Sequence[TuningRecord],
    candidates: Sequence[Candidate],
    costs: dict[str, Any],
) -> Artifact:
    """Compile the kernels of records and write them with their manifest; no GPU is needed.

    Raises
    ------
    ArtifactError
        If a record does not fit its template.
    TargetError
        If there is no compiler.
    StorageError
        If the folder can't be written.
    """
    compiler_path()
    programs = [program_of(target, c, r) for c, r in zip(candidates, records, strict=True)]
    served = merge_programs(programs, space_of(target).facts.isa)
    merged = list(served)
    groups = [
        merged[start : start + _KERNELS_OF_IMAGE]
        for start in range(0, len(merged), _KERNELS_OF_IMAGE)
    ]
    with progress() as bar:
        pool = compile_pool()
        futures = [pool.submit(compile_group, group, target) for group in groups]
        title = f"building {target.name} {workload.key}"
        compiled = (future.result() for future in bar.track(futures, description=title))
        return write_artifact(
            path, target, workload, sources.digest(), compiled, served, programs, costs
        )


def write_artifact(
    path: Path,
    target: Target,
    workload: Workload,
    digest: str,
    compiled: Iterable[tuple[Sequence[Kernel], bytes]],
    served: Mapping[Program, Sequence[Program]],
    programs: Sequence[Program],
    costs: dict[str, Any],
) -> Artifact:
    """Write compiled programs with their manifest.

    Parameters
    ----------
    path
        The folder; it appears whole or not at all.
    digest
        What says that the artifact is of its sources.
    compiled
        Images, with the kernels in each.
    served
        The programs that each compiled one serves.
    programs
        All of these, in the order to list them.
    costs
        Tables, by kernel, their axes and the machine's constants, as a cost file holds them.

    Raises
    ------
    ArtifactError
        If there are no costs of one.
    TuneError
        If a compiled program's registers don't hold what it needs.
    StorageError
        If the folder can't be written.
    """
    tables = costs_of(target, programs, costs)
    entries: list[dict[str, Any]] = []
    images: dict[str, str] = {}
    with atomic_dir(path) as folder:
        require_space(folder, _SPACE_BYTES)
        for number, (kernels, image) in enumerate(compiled):
            name = f"kernels_{number:02}.cubin"
            (folder / name).write_bytes(image)
            images[name] = digest_of(folder / name)
            for kernel in kernels:
                entries += [
                    _entry(kernel, program, name, tables) for program in served[kernel.program]
                ]
        # In the order of the records: selecting is faster where those that serve most come first.
        place = {program.name: number for number, program in enumerate(programs)}
        entries.sort(key=lambda entry: place[entry["name"]])
        manifest = {
            "schema": SCHEMA,
            **versions(),
            "target": target.to_dict(),
            "op": workload.op,
            "dtype": workload.dtype,
            "out_dtype": workload.out_dtype,
            "digest": digest,
            "images": images,
            "grid": costs["grid"],
            "kernels": entries,
            "machine": costs["machine"],
        }
        (folder / MANIFEST).write_text(json.dumps(manifest), encoding="utf-8")
    return read_artifact(path)


def compile_group(programs: Sequence[Program], target: Target) -> tuple[list[Kernel], bytes]:
    """Compile several programs into one image; run in a process of the pool."""
    return compile_programs(programs, target.tvm_target())


def program_of(target: Target, candidate: Candidate, record: TuningRecord) -> Program:
    """Return the tile program of a record.

    Raises
    ------
    ArtifactError
        If its trace does not fit the template.
    """
    mend = f"run `moonpoly tune --target {target.name}`"
    try:
        program = program_of_trace(candidate, space_of(target).facts.isa, record.trace)
    except (ValueError, TypeError, RuntimeError) as err:
        reason = str(err).partition("\n")[0]
        raise ArtifactError(
            f"the tuning record of {record.kernel} does not fit its template ({reason}); {mend}"
        ) from err
    names = recorded_names(program, space_of(target).facts.isa)
    if record.kernel not in names or program.config.problems():
        raise ArtifactError(
            f"the tuning record of {record.kernel} describes {program.name}, which is another "
            f"kernel or can't be built ({', '.join(program.config.problems())}); {mend}"
        )
    return program


def costs_of(target: Target, programs: Sequence[Program], costs: dict[str, Any]) -> dict[str, Any]:
    """Return the cost table of each program by its name: its own, or that of one that runs alike.

    Raises
    ------
    ArtifactError
        If there are no costs of one.
    """
    known: dict[str, Any] = costs["kernels"]
    tables = {}
    for program in programs:
        names = recorded_names(program, space_of(target).facts.isa)
        found = next((known[name] for name in names if name in known), None)
        if found is None:
            raise ArtifactError(f"the cost tables lack {program.name}; run `moonpoly calibrate`")
        tables[program.name] = found
    return tables


def _entry(kernel: Kernel, program: Program, image: str, costs: dict[str, Any]) -> dict[str, Any]:
    """Return what the manifest says of a program that a compiled kernel serves."""
    if kernel.spilled_bytes:
        raise TuneError(
            f"{kernel.program.name} spills {kernel.spilled_bytes} bytes with this compiler"
        )
    return describe(program, costs, kernel.program) | {
        "symbol": kernel.symbol,
        "cubin": image,
        "registers": kernel.registers,
        "params": list(kernel.parameters),
    }


def describe(
    program: Program, costs: dict[str, Any], compiled: Program | None = None
) -> dict[str, Any]:
    """Return what plans are made with: a kernel's tile, its blocks and its costs.

    It is compiled as part of ``compiled``, or by itself.
    """
    config, name = program.config, program.name
    cost = costs[name]
    if not config.split:
        cost = {key: cost[key] for key in ("us", "narrow_us", "correction") if key in cost}
    return {
        "name": name,
        "loads": config.loads,
        "um": config.um,
        "un": config.un,
        "swapped": config.swapped,
        "cluster_p": config.cluster_p,
        "cluster_q": config.cluster_q,
        "split": config.split,
        "threads": config.threads,
        "smem_bytes": config.shared_bytes,
        "blocks": config.blocks,
        **_of_ring(config, compiled.config if compiled else config),
        "cost": cost,
    }


def _of_ring(config: TileConfig, compiled: TileConfig) -> dict[str, Any]:
    """Return what only programs with a ring of any depth have."""
    if not isinstance(config, WgmmaConfig) or not isinstance(compiled, WgmmaConfig):
        return {}
    ring = ring_of(compiled, config)
    found = {"smem_bytes": ring.shared_bytes, "ring": asdict(ring)}
    if config.loads == "strided":
        return found
    return found | {"box_x": config.box_x, "box_y": config.box_y}
