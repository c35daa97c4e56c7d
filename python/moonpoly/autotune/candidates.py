"""What is tuned: every tile of a target's search space, with the name its kernel will have."""

from __future__ import annotations

from dataclasses import dataclass

from moonpoly.error import TargetError
from moonpoly.schedules import SearchSpace, Tile, search_space
from moonpoly.target import Target
from moonpoly.workload import Workload

_SHORT_DTYPE = {
    "float32": "f32",
    "float64": "f64",
    "float16": "f16",
    "bfloat16": "bf16",
    "tf32": "tf32",
    "float8_e4m3fn": "e4m3",
    "int8": "s8",
}


@dataclass(frozen=True)
class Candidate:
    """A micro-kernel to be: its tile, its name, and what its template is called with.

    Parameters
    ----------
    name
        The name it is exported under, such as ``"gemm_f32_avx512_14x32"``.
    tile
        Family and size.
    lanes
        Elements of one vector register: the width of a panel of B.
    dtype, out_dtype
        The types of A and B, and of C.
    """

    name: str
    tile: Tile
    lanes: int
    dtype: str
    out_dtype: str = "float32"


def space_of(target: Target) -> SearchSpace:
    """Return the search space of ``target``.

    Raises
    ------
    TargetError
        If the target has none, so nothing can be tuned for it.
    """
    try:
        return search_space(target.name)
    except KeyError as err:
        raise TargetError(
            f"target {target.name} has no search space; add one to schedules/"
        ) from err


def candidates(target: Target, workload: Workload) -> tuple[Candidate, ...]:
    """Return every candidate of a workload on ``target``, in the order they are tuned."""
    space = space_of(target)
    if workload.dtype not in target.vector_lanes:
        raise TargetError(
            f"target {target.name} has no kernels for {workload.dtype}; it has some for "
            f"{', '.join(sorted(target.vector_lanes))}"
        )
    lanes = target.vector_lanes[workload.dtype]
    return tuple(
        Candidate(
            _name(workload, space.facts.isa, tile), tile, lanes, workload.dtype, workload.out_dtype
        )
        for tile in space.tiles
    )


def _name(workload: Workload, isa: str, tile: Tile) -> str:
    family = "" if tile.family == "outer" else f"_{tile.family}"
    dtype = _SHORT_DTYPE[workload.dtype]
    return f"{workload.op}{family}_{dtype}_{isa}_{tile.um}x{tile.un}"
