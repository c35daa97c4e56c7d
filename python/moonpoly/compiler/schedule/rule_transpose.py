"""Element-wise chains on operands of another order of axes: tiles turned in registers.

If an operand is consecutive along another axis than the output, a square tile of it is loaded
along its own axis, transposed by shuffles, and then used like any operand of the right order.
"""

from __future__ import annotations

from dataclasses import dataclass

from tvm import tirx
from tvm.ir import Expr, Var
from tvm.tirx import op

from moonpoly.compiler.schedule.emitter import Emitter
from moonpoly.compiler.schedule.expression import (
    constant_int,
    int32,
    int64,
    num_lanes,
    substitute,
    uses,
)
from moonpoly.compiler.schedule.footprint import Footprint, merge_axes
from moonpoly.compiler.schedule.partition import OPERATION_PS, share
from moonpoly.compiler.schedule.rule_map import map_footprint, store_element
from moonpoly.compiler.schedule.stages import Axis, Stage
from moonpoly.error import UnsupportedError

# A shorter axis fills too little of a tile to be worth its shuffles.
SHORTEST = 4


@dataclass(frozen=True)
class Turned:
    """An operand that is consecutive along another axis than the output."""

    buffer: Var
    offset: Expr


def emit_transpose(emitter: Emitter, stage: Stage, output: Var) -> None:
    """Emit a stage in square tiles.

    Raises
    ------
    UnsupportedError
        If the stage has no operand to turn, or one that tiles can't serve.
    """
    prints = map_footprint(emitter, stage, output)
    axes, env = merge_axes(stage.axes, prints)
    *outer, inner = axes
    across, turned = _find_turned(outer, inner, prints, output)
    if any(uses(use, axis.var) for use in prints.data_uses for axis in (across, inner)):
        raise UnsupportedError("expected operands whose addresses alone depend on the tile")
    _Tiles(emitter, stage, output, axes, env, across, turned, prints).emit()


def _find_turned(
    outer: list[Axis], inner: Axis, prints: Footprint, output: Var
) -> tuple[Axis, list[Turned]]:
    """Return the axis that the other operands are consecutive along, and those operands."""
    turned: list[Turned] = []
    found: list[Axis] = []
    for buffer, offset in prints.accesses:
        if buffer.same_as(output):
            continue
        stride = prints.stride(offset, inner.var)
        if stride is None:
            raise UnsupportedError("expected addresses that grow evenly")
        if constant_int(stride) in (0, 1):
            continue
        along = [axis for axis in outer if _is_unit(prints, offset, axis)]
        if not along or str(buffer.ty.dtype) not in ("float32", "int32", "uint32"):
            raise UnsupportedError("expected an operand that is consecutive along some axis")
        turned.append(Turned(buffer, offset))
        found.append(along[-1])
    if not turned:
        raise UnsupportedError("expected an operand in another order")
    if any(not axis.var.same_as(found[0].var) for axis in found):
        raise UnsupportedError("expected all operands in one other order")
    for axis in (found[0], inner):
        extent = constant_int(axis.extent)
        if extent is not None and extent < SHORTEST:
            raise UnsupportedError("expected axes that fill a tile")
    return found[0], turned


def _is_unit(prints: Footprint, offset: Expr, axis: Axis) -> bool:
    stride = prints.stride(offset, axis.var)
    return stride is not None and constant_int(stride) == 1


class _Tiles:
    """The loops over tiles: ``across`` runs along an operand, ``inner`` along the output."""

    def __init__(
        self,
        emitter: Emitter,
        stage: Stage,
        output: Var,
        axes: list[Axis],
        env: dict[Var, Expr],
        across: Axis,
        turned: list[Turned],
        prints: Footprint,
    ) -> None:
        self.emitter = emitter
        self.stage = stage
        self.output = output
        self.env = env
        self.across = across
        self.inner = axes[-1]
        self.outer = [axis for axis in axes[:-1] if axis is not across]
        self.turned = turned
        self.prints = prints

    def emit(self) -> None:
        """Emit the loops."""
        emitter = self.emitter
        lanes = int64(emitter.lanes)
        tiles = [
            emitter.analyzer.simplify(op.truncdiv(axis.extent + lanes - int64(1), lanes))
            for axis in (self.across, self.inner)
        ]
        extents = [*(axis.extent for axis in self.outer), *tiles]
        operations = emitter.lanes * (self.prints.num_operations + 4 * len(self.turned))
        share(emitter, extents, int64(operations * OPERATION_PS), self._tile)

    def _tile(self, indices: list[Expr]) -> None:
        emitter = self.emitter
        lanes = int64(emitter.lanes)
        *leading, tile_across, tile_inner = indices
        place = {axis.var: i for axis, i in zip(self.outer, leading, strict=True)}
        first = [emitter.opaque(tile * lanes, "tile") for tile in (tile_across, tile_inner)]
        rows = emitter.opaque(op.min(self.across.extent - first[0], lanes), "rows")
        columns = emitter.opaque(op.min(self.inner.extent - first[1], lanes), "columns")
        tiles = [self._turn(operand, place, first, rows, columns) for operand in self.turned]
        for row in range(emitter.lanes):
            with emitter.branch(rows > int64(row)), emitter.tail(columns):
                point = {
                    **self.env,
                    **place,
                    self.across.var: first[0] + int64(row),
                    self.inner.var: first[1] + emitter.lane,
                }
                self._store_row(point, [tile[row] for tile in tiles])

    def _store_row(self, point: dict[Var, Expr], operands: list[Expr]) -> None:
        """Store one row of a tile, given the turned operands in the order of their loads."""
        waiting = list(operands)
        emitter = self.emitter
        plain = emitter.load

        def load(buffer: Var, offset: Expr) -> Expr:
            linear = emitter.linear(offset) if num_lanes(offset) == 1 else None
            if linear is not None and constant_int(linear[0]) not in (0, 1):
                return waiting.pop(0)
            return plain(buffer, offset)

        emitter.load = load  # type: ignore[method-assign]
        try:
            indices = [point[axis.var] for axis in self.stage.axes]
            store_element(emitter, self.stage, self.output, indices)
        finally:
            emitter.load = plain  # type: ignore[method-assign]

    def _turn(
        self,
        operand: Turned,
        place: dict[Var, Expr],
        first: list[Expr],
        rows: Expr,
        columns: Expr,
    ) -> list[Expr]:
        """Load a tile along the operand's axis; return its rows along the output's."""
        emitter = self.emitter
        vectors = []
        with emitter.tail(rows):
            for column in range(emitter.lanes):
                # Past the end, the last column is loaded again: no branch, no stray address.
                index = op.min(int64(column), columns - int64(1)) if column else int64(0)
                point = {
                    **self.env,
                    **place,
                    self.across.var: first[0] + emitter.lane,
                    self.inner.var: first[1] + index,
                }
                offset = emitter.analyzer.simplify(substitute(operand.offset, point))
                vectors.append(emitter.load(operand.buffer, offset))
        return transpose(emitter, vectors)


def transpose(emitter: Emitter, rows: list[Expr]) -> list[Expr]:
    """Return the columns of a square tile, given its rows as vectors."""
    lanes = len(rows)
    step = 1
    while step < lanes:
        turned = list(rows)
        low = [k if not k & step else lanes + k - step for k in range(lanes)]
        high = [k + step if not k & step else lanes + k for k in range(lanes)]
        for i in range(lanes):
            if i & step:
                continue
            pair = [rows[i], rows[i + step]]
            for target, picks in ((i, low), (i + step, high)):
                shuffled = tirx.Shuffle(pair, [int32(pick) for pick in picks])
                turned[target] = emitter.opaque(shuffled, "turn")
        rows = turned
        step *= 2
    return rows
