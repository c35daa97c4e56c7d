"""Cost tables of the kept kernels, fitted to launches of them as they are exported."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from moonpoly.autotune.artifact import Artifact
from moonpoly.autotune.gpu.export import write_artifact
from moonpoly.autotune.gpu.merged import Merged
from moonpoly.autotune.gpu.recording import record
from moonpoly.autotune.gpu.refine import refine
from moonpoly.autotune.gpu.refit import refit
from moonpoly.autotune.gpu.shapes import drawn_shapes, range_shapes
from moonpoly.error import TuneError
from moonpoly.target import Target
from moonpoly.tir_templates.items import ITEMS
from moonpoly.workload import Workload

# Shapes that are recorded unless more are asked for.
_LAUNCHES = 120
# Other shapes than a set of kernels is chosen by; and to refine by, than costs are fitted to.
_SEED, _REFINE_SEED = 1, 2
# Costs that predict well leave out more that is hopeless.
_REFINE_RATIO = 1.5


def num_launches(target: Target, asked: int | None) -> int:
    """Return how many shapes to record launches on: as many as were asked for, if any were.

    Raises
    ------
    TuneError
        If the target is a processor.
    """
    if asked is not None and not target.is_gpu:
        raise TuneError(f"launches are recorded on GPUs; leave them out for {target.name}")
    return _LAUNCHES if asked is None else asked


def launched_costs(
    target: Target,
    workload: Workload,
    merged: Merged,
    costs: dict[str, Any],
    launches: int,
    folder: Path,
) -> dict[str, Any]:
    """Return the tables, their axes and the machine's constants, fitted to recorded launches.

    Launched are the kernels that may be good on drawn shapes, and each kernel by itself over the
    reduction lengths and loads of its table.

    Parameters
    ----------
    merged
        The kernels.
    costs
        What is known, in the form that is returned: ``kernels`` by name, ``grid`` and ``machine``.
    launches
        How many shapes to draw.
    folder
        Where what is finished is kept.

    Raises
    ------
    TuneError
        If launches fail.
    """
    artifact = _exported(target, workload, merged, costs, folder)
    shapes = drawn_shapes(launches, _SEED, ITEMS[workload.dtype].aligned)
    num_sms = costs["machine"]["num_sms"]
    ranges = {each.name: range_shapes(each.config, num_sms) for each in merged.programs}
    return _costs_of(
        refit(artifact.manifest, record(artifact, shapes, ranges, folder / "launches"))
    )


def refined_costs(
    target: Target,
    workload: Workload,
    merged: Merged,
    costs: dict[str, Any],
    launches: int,
    folder: Path,
) -> dict[str, Any]:
    """Return the same, moved from what is known by launches of other drawn shapes.

    Parameters and errors are those of :func:`launched_costs`; no kernel is launched by itself, as
    what is known was fitted to that.
    """
    artifact = _exported(target, workload, merged, costs, folder)
    shapes = drawn_shapes(launches, _REFINE_SEED, ITEMS[workload.dtype].aligned)
    records = record(artifact, shapes, {}, folder / "launches", _REFINE_RATIO)
    return _costs_of(refine(artifact.manifest, records))


def _exported(
    target: Target, workload: Workload, merged: Merged, costs: dict[str, Any], folder: Path
) -> Artifact:
    compiled = (([kernel], image) for kernel, image in merged.images)
    return write_artifact(
        folder / "kept", target, workload, "", compiled, merged.served, merged.programs, costs
    )


def _costs_of(manifest: Mapping[str, Any]) -> dict[str, Any]:
    tables = {kernel["name"]: kernel["cost"] for kernel in manifest["kernels"]}
    return {"kernels": tables, "grid": manifest["grid"], "machine": manifest["machine"]}
