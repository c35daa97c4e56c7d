"""Which tile a block works on."""

from __future__ import annotations

from tvm.script import tirx as T

from .config import MmaConfig

# Tiles along m that are walked before the next along n: their rows stay in the second cache.
_GROUP = 8


def tile_position(c: MmaConfig):
    """Return an inline function from a tile's number to its first row and column."""

    @T.inline
    def position(at, number, m_tiles, n_tiles):
        group: T.let = T.truncdiv(number, _GROUP * n_tiles)
        inside: T.let = T.truncmod(number, _GROUP * n_tiles)
        height: T.let = T.min(m_tiles - group * _GROUP, _GROUP)
        at[0] = (group * _GROUP + T.truncmod(inside, height)) * c.um
        at[1] = T.truncdiv(inside, height) * c.un

    return position
