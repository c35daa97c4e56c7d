"""Search spaces and facts of each target: the machine, with no algorithm in it.

:func:`search_space` returns what a target's tiles are and how a template may be scheduled on it.
Tuning records lie beside, in ``records/<target>/<op>_<dtype>.jsonl``.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from . import cuda, mma, x86
from .space import Facts, SearchSpace, Tile

__all__ = ["Facts", "SearchSpace", "Tile", "configs", "records_path", "search_space"]

if TYPE_CHECKING:
    from moonpoly.tir_templates.mma.config import MmaConfig
    from moonpoly.tir_templates.wgmma.config import WgmmaConfig

_SPACES = {
    "x86-avx512": x86.AVX512,
    "x86-avx2": x86.AVX2,
    "cuda-sm90a": cuda.SM90A,
    "cuda-sm80": mma.SM80,
}


def search_space(target_name: str) -> SearchSpace:
    """Return the search space of a target.

    Raises
    ------
    KeyError
        If the target has none.
    """
    return _SPACES[target_name]


def configs(tile: Tile, dtype: str) -> Sequence[WgmmaConfig] | Sequence[MmaConfig]:
    """Return every program of a GPU's tile that can be built and is worth measuring."""
    return (mma.configs if tile.family in mma.LOADS else cuda.configs)(tile, dtype)


def records_path(target_name: str, workload_key: str) -> Path:
    """Return the file of the committed tuning records of one target and workload."""
    return Path(__file__).parent / "records" / target_name / f"{workload_key}.jsonl"
