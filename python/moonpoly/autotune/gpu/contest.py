"""Which of the shortlist to keep: those that ran drawn shapes best."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from moonpoly.autotune.candidates import space_of
from moonpoly.autotune.gpu.choice import choose, losses
from moonpoly.autotune.gpu.export import write_artifact
from moonpoly.autotune.gpu.predicted import Predictions
from moonpoly.autotune.gpu.program import merge_programs
from moonpoly.autotune.gpu.record import Record
from moonpoly.autotune.gpu.recording import record
from moonpoly.autotune.gpu.refit import refit
from moonpoly.autotune.gpu.shapes import Shape, access_of, drawn_shapes
from moonpoly.autotune.gpu.winners import Winner, image_of
from moonpoly.autotune.gpu.workspace import GpuWorkspace
from moonpoly.target import Target
from moonpoly.tir_templates.items import ITEMS
from moonpoly.workload import Workload

# Compiled functions, and kernels that they serve.
MAX_FUNCTIONS, MAX_KERNELS = 48, 80
# Shapes that a set is chosen by; those that were not launched are predicted.
_NUM_SHAPES = 600
_SEED = 0
# The most useful of each way to load that are kept whatever they took: drawn shapes have no
# transposed operands, and few vectors.
_OF_EACH_WAY = 2


def contest(
    target: Target,
    workload: Workload,
    listed: Sequence[Winner],
    costs: dict[str, Any],
    launches: int,
    work: GpuWorkspace,
) -> tuple[list[Winner], tuple[float, ...]]:
    """Launch a shortlist as it was searched, and choose.

    Returns those to keep, in their order, and the loss after each: the mean time of the best
    launches over that of all of the shortlist.

    Parameters
    ----------
    costs
        Tables, by kernel, their axes and the machine's constants, as a cost file holds them.
    launches
        How many shapes to record.

    Raises
    ------
    TuneError
        If launches fail.
    """
    programs = [winner.program for winner in listed]
    names = [program.name for program in programs]
    compiled = (([kernel], image) for kernel, image in (image_of(w, work) for w in listed))
    alone = {program: (program,) for program in programs}
    artifact = write_artifact(
        work.root / "contenders", target, workload, "", compiled, alone, programs, costs
    )
    shapes = drawn_shapes(launches, _SEED, ITEMS[workload.dtype].aligned)
    records = record(artifact, shapes, {}, work.root / "launches")
    served = merge_programs(programs, space_of(target).facts.isa)
    functions = {program.name: one.name for one, each in served.items() for program in each}
    rows = [*records, *_predicted(refit(artifact.manifest, records), shapes)]
    best = set(choose(functions, rows, MAX_FUNCTIONS, MAX_KERNELS, _always(listed)))
    kept = [winner for winner in listed if winner.program.name in best]
    return kept, losses([winner.program.name for winner in kept], names, records)


def _always(listed: Sequence[Winner]) -> list[str]:
    """Return the names of the first of each way to load."""
    ways: dict[str, list[str]] = {}
    for winner in listed:
        ways.setdefault(winner.program.config.loads, []).append(winner.program.name)
    return [name for names in ways.values() for name in names[:_OF_EACH_WAY]]


def _predicted(manifest: Mapping[str, Any], launched: Sequence[Shape]) -> Iterator[Record]:
    """Yield records of more shapes as the selector predicts them.

    A few launches alone would choose the kernels that are best for a few shapes.
    """
    predictions = Predictions(manifest)
    drawn = drawn_shapes(_NUM_SHAPES, _SEED, ITEMS[manifest["dtype"]].aligned)
    for shape in drawn[len(launched) :]:
        about = dict(zip("mnk", shape, strict=True))
        for overlap in (False, True):
            row = about | {"access": access_of(shape, manifest["dtype"]), "overlap": overlap}
            launches = [
                [*key, launch.predicted_us]
                for key, launch in predictions.of(row).items()
                if launch.overlap == overlap
            ]
            if launches:
                yield row | {"launches": launches}
