"""Sampling the decisions of a tile program that primitives can't schedule."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from moonpoly.tir_templates.items import DTYPE

from .space import Tile

if TYPE_CHECKING:
    from tvm.s_tir import Schedule

# Annotations of the tile's block: this and the name of a field of its configuration.
PREFIX = "moonpoly."


def annotate_decisions(
    sch: Schedule,
    family: str,
    configs: Callable[[Tile, str], Sequence[Any]],
    decisions: Sequence[str],
) -> None:
    """Sample each decision among the programs that are left, and leave it at the block.

    Parameters
    ----------
    configs
        The programs of a tile and a type.
    decisions
        Fields of a program; those that others bound come last.
    """
    block = sch.get_sblock("multiply")
    um, un, _ = (int(sch.get(loop).extent) for loop in sch.get_loops(block))
    dtype = str(sch.get(block).annotations[DTYPE])
    left = list(configs(Tile(family, um, un), dtype))
    for field in decisions:
        values = sorted({int(getattr(config, field)) for config in left})
        sampled = sch.sample_categorical(values, [1.0 / len(values)] * len(values))
        value = int(sch.get(sampled))
        left = [config for config in left if int(getattr(config, field)) == value]
        sch.annotate(block, PREFIX + field, sampled)
