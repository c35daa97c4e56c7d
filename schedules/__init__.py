"""Search spaces and facts of each target: the machine, with no algorithm in it.

:func:`search_space` returns what a target's tiles are and how a template may be scheduled on it.
Tuning records lie beside, in ``records/<target>/<op>_<dtype>.jsonl``.
"""

from __future__ import annotations

from pathlib import Path

from . import cuda, x86
from .space import Facts, SearchSpace, Tile

__all__ = ["Facts", "SearchSpace", "Tile", "records_path", "search_space"]

_SPACES = {"x86-avx512": x86.AVX512, "x86-avx2": x86.AVX2, "cuda-sm90a": cuda.SM90A}


def search_space(target_name: str) -> SearchSpace:
    """Return the search space of a target.

    Raises
    ------
    KeyError
        If the target has none.
    """
    return _SPACES[target_name]


def records_path(target_name: str, workload_key: str) -> Path:
    """Return the file of the committed tuning records of one target and workload."""
    return Path(__file__).parent / "records" / target_name / f"{workload_key}.jsonl"
