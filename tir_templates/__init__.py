"""Unscheduled tile programs: the algorithm of each micro-kernel family, no machine in them.

A template is called with the tile's sizes and returns a PrimFunc whose extents and strides are
symbolic. Its blocks carry the names that a schedule finds them by.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import tvm

    Template = Callable[[int, int, int, str], tvm.tirx.PrimFunc]

_TILES = ("whole", "split", "residue", "direct", "strided", "gemv", "async", "gathered")
_FAMILIES = ("outer", "dot", *_TILES)


def family_names() -> tuple[str, ...]:
    """Return the names of the micro-kernel families."""
    return _FAMILIES


def template(family: str) -> Template:
    """Return the template of a family; it is called as ``(um, un, lanes, dtype)``.

    Raises
    ------
    ValueError
        If there is no such family.
    """
    if family == "outer":
        from .gemm_outer import gemm_outer

        return gemm_outer
    if family == "dot":
        from .gemm_dot import gemm_dot

        return gemm_dot
    if family in _TILES:
        from .gemm_tile import gemm_tile

        return gemm_tile
    raise ValueError(f"unknown micro-kernel family {family!r}; known: {', '.join(_FAMILIES)}")
