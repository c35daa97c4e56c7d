"""The order in which blocks walk over tiles."""

from __future__ import annotations

from tvm.script import tirx as T

# Tiles along the first axis that are walked before the next along the second: what they read of
# the one operand stays in the second cache.
_GROUP = 8


@T.inline
def grouped_tile(at, number, tiles, other_tiles):
    """Find the place along both axes of a tile's number; there are so many along each.

    Divisions of numbers without a sign take fewer instructions.
    """
    group = T.alloc_local([1], "int32")
    group[0] = 0
    if tiles > _GROUP:
        in_group: T.let = T.cast(_GROUP * other_tiles, "uint32")
        group[0] = T.cast(T.truncdiv(T.cast(number, "uint32"), in_group), "int32")
    inside: T.let = T.cast(number - group[0] * (_GROUP * other_tiles), "uint32")
    height: T.let = T.cast(T.min(tiles - group[0] * _GROUP, _GROUP), "uint32")
    at[1] = T.cast(T.truncdiv(inside, height), "int32")
    at[0] = group[0] * _GROUP + T.cast(inside, "int32") - at[1] * T.cast(height, "int32")


def cluster_shift(cluster):
    """Return the logarithm of a cluster's blocks, of which there are 1, 2, 4 or 8."""
    return T.shift_right(cluster, 1) - T.shift_right(cluster, 3)
