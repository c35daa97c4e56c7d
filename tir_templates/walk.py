"""The order in which blocks walk over tiles."""

from __future__ import annotations

from tvm.script import tirx as T

# Tiles along the first axis that are walked before the next along the second: what they read of
# the one operand stays in the second cache.
_GROUP = 8


@T.inline
def grouped_tile(at, number, tiles, other_tiles):
    """Find the place along both axes of a tile's number; there are so many along each."""
    group: T.let = T.truncdiv(number, _GROUP * other_tiles)
    inside: T.let = T.truncmod(number, _GROUP * other_tiles)
    height: T.let = T.min(tiles - group * _GROUP, _GROUP)
    at[0] = group * _GROUP + T.truncmod(inside, height)
    at[1] = T.truncdiv(inside, height)


def cluster_shift(cluster):
    """Return the logarithm of a cluster's blocks, of which there are 1, 2, 4 or 8."""
    return T.shift_right(cluster, 1) - T.shift_right(cluster, 3)
