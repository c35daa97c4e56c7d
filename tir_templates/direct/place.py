"""Which lines of the operands and which items of C a thread has.

Rows and columns of the instructions may be any rows and columns of the tile. They are such that a
thread's items of C lie side by side, as many as 16 bytes have where there are enough of them.
"""

from __future__ import annotations

from tvm.script import tirx as T

from .config import MMA_COLUMNS, DirectConfig

_LANE_ROWS = 8


def row_of(c: DirectConfig, line, lane):
    """Return the row, within a warp's, of a thread's line along the rows."""
    group = T.truncdiv(lane, 4)
    if not c.swapped:
        return line * _LANE_ROWS + group
    run = c.run
    return T.truncdiv(line, run) * (run * _LANE_ROWS) + group * run + T.truncmod(line, run)


def column_of(c: DirectConfig, line, place):
    """Return the column of the tile that an instruction's column is, of 8, in a thread's line."""
    if c.swapped:
        return line * MMA_COLUMNS + place
    tiles = c.run // 2
    return (
        T.truncdiv(line, tiles) * (tiles * MMA_COLUMNS)
        + T.truncdiv(place, 2) * c.run
        + T.truncmod(line, tiles) * 2
        + T.truncmod(place, 2)
    )


def register_of(c: DirectConfig, run, item):
    """Return which of a thread's sums an item of a run is."""
    columns = c.column_lines
    if c.swapped:
        per_line = c.row_lines // c.run
        of_column, line = T.truncdiv(run, per_line), T.truncmod(run, per_line) * c.run + item
        column, place = T.truncdiv(of_column, 2), T.truncmod(of_column, 2)
    else:
        per_line = 2 * columns // c.run
        line, place = T.truncdiv(run, per_line), item % 2
        column = T.truncmod(run, per_line) * (c.run // 2) + item // 2
    return (T.truncdiv(line, 2) * columns + column) * 4 + T.truncmod(line, 2) * 2 + place


def item_of(c: DirectConfig, run, lane):
    """Return the row and the column of C, within a warp's tile, that a run begins at."""
    place = T.truncmod(lane, 4) * 2
    if c.swapped:
        per_line = c.row_lines // c.run
        of_column, group = T.truncdiv(run, per_line), T.truncmod(run, per_line)
        row = T.truncdiv(of_column, 2) * MMA_COLUMNS + place + T.truncmod(of_column, 2)
        return row, row_of(c, group * c.run, lane)
    per_line = 2 * c.column_lines // c.run
    line, group = T.truncdiv(run, per_line), T.truncmod(run, per_line)
    return row_of(c, line, lane), column_of(c, group * (c.run // 2), place)
