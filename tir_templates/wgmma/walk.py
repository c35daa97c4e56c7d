"""Which tile a block works on."""

from __future__ import annotations

from tvm.script import tirx as T

from .config import WgmmaConfig

# Tiles along p that are walked before the next along q: their operand stays in the second cache.
_GROUP = 8


def tile_position(c: WgmmaConfig):
    """Return an inline function from a tile's number to its first row and column (p, q)."""

    @T.inline
    def position(at, number, rank, p_tiles, q_tiles):
        group: T.let = T.truncdiv(number, _GROUP * q_tiles)
        inside: T.let = T.truncmod(number, _GROUP * q_tiles)
        height: T.let = T.min(p_tiles - group * _GROUP, _GROUP)
        at[0] = group * _GROUP + T.truncmod(inside, height)
        at[1] = T.truncdiv(inside, height)
        if c.cluster > 1:
            at[0] = (at[0] * c.cluster_p + T.truncmod(rank, c.cluster_p)) * c.rows
            at[1] = (at[1] * c.cluster_q + T.truncdiv(rank, c.cluster_p)) * c.columns
        else:
            at[0] = at[0] * c.rows
            at[1] = at[1] * c.columns

    return position
