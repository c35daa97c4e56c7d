"""Cost tables of the kept kernels, fitted to launches of them as they are exported."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from moonpoly.autotune.gpu.export import write_artifact
from moonpoly.autotune.gpu.merged import Merged
from moonpoly.autotune.gpu.recording import record
from moonpoly.autotune.gpu.refit import refit
from moonpoly.autotune.gpu.shapes import drawn_shapes, range_shapes
from moonpoly.error import TuneError
from moonpoly.target import Target
from moonpoly.tir_templates.items import ITEMS
from moonpoly.workload import Workload

# Shapes that are recorded unless more are asked for.
_LAUNCHES = 120
# Other shapes than a set of kernels is chosen by.
_SEED = 1


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
    fitting: Callable[..., dict[str, Any]] = refit,
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
    fitting
        ``refit``, or ``refine`` where what is known was fitted to many launches.

    Raises
    ------
    TuneError
        If launches fail.
    """
    compiled = (([kernel], image) for kernel, image in merged.images)
    artifact = write_artifact(
        folder / "kept", target, workload, "", compiled, merged.served, merged.programs, costs
    )
    shapes = drawn_shapes(launches, _SEED, ITEMS[workload.dtype].aligned)
    num_sms = costs["machine"]["num_sms"]
    ranges = {each.name: range_shapes(each.config, num_sms) for each in merged.programs}
    records = record(artifact, shapes, ranges, folder / "launches")
    fitted = fitting(artifact.manifest, records)
    tables = {kernel["name"]: kernel["cost"] for kernel in fitted["kernels"]}
    return {"kernels": tables, "grid": fitted["grid"], "machine": fitted["machine"]}
