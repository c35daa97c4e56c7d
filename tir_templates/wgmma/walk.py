"""Which tile a block works on, and which part of its reduction."""

from __future__ import annotations

from tvm.script import tirx as T

from ..walk import cluster_shift, grouped_tile
from .config import WgmmaConfig


def _position(c: WgmmaConfig):
    """Return an inline function from a tile's number to its first row and column (p, q)."""

    @T.inline
    def position(b):
        grouped_tile(b.at, b.work[0], b.p_tiles, b.q_tiles)
        if c.cluster > 1:
            b.at[0] = (b.at[0] * c.cluster_p + T.truncmod(b.rank[0], c.cluster_p)) * c.rows
            b.at[1] = (b.at[1] * c.cluster_q + T.truncdiv(b.rank[0], c.cluster_p)) * b.columns
        else:
            b.at[0] = b.at[0] * c.rows
            b.at[1] = b.at[1] * b.columns

    return position


def next_tile(c: WgmmaConfig):
    """Return an inline function that goes on by so many tiles; to none where a block has one."""
    position = _position(c)

    @T.inline
    def step_on(b, tiles):
        if c.split:
            b.work[0] = b.tiles
        else:
            b.work[0] = b.work[0] + tiles
            if b.work[0] < b.tiles:
                position(b)

    return step_on


def first_tile(c: WgmmaConfig):
    """Return an inline function that finds a block's first tile and its steps of the reduction.

    It is the start of a kernel, where nothing else goes on; divisions take most of it, so there
    are as few as can be.
    """
    position = _position(c)

    @T.inline
    def find_whole(b, block, k, cluster, slices, part_steps, longer_parts):
        b.work[0] = T.truncdiv(block, c.cluster)
        b.work[1] = 0
        b.work[2] = 0
        b.work[3] = T.truncdiv(k + c.step - 1, c.step)
        position(b)

    @T.inline
    def find_part(b, block, k, cluster, slices, part_steps, longer_parts):
        shift: T.let = cluster_shift(cluster)
        b.work[0] = T.shift_right(block, shift)
        b.work[1] = 0
        if slices > 1:
            b.work[1] = T.truncdiv(b.work[0], b.tiles)
            b.work[0] = b.work[0] - b.work[1] * b.tiles
        b.work[2] = b.work[1] * cluster + b.rank[0]
        b.work[3] = part_steps
        if b.work[2] < longer_parts:
            b.work[3] = part_steps + 1
        b.work[2] = b.work[2] * part_steps + T.min(b.work[2], longer_parts)
        b.at[0] = 0
        b.at[1] = b.work[0]
        if b.p_tiles > 1:
            b.at[1] = T.truncdiv(b.work[0], b.p_tiles)
            b.at[0] = (b.work[0] - b.at[1] * b.p_tiles) * c.rows
        b.at[1] = b.at[1] * b.columns

    return find_part if c.split else find_whole
