"""Normalisations: reductions over a row and what is computed of their results, in one pass.

Softmax, LayerNorm, RMSNorm, InstanceNorm, means with an epilogue: all stages of one row are run
before the next row is touched, so that the row is read from memory once. Either a row's elements
lie in the lanes (``along``) or neighbouring rows do (``across``), as the operands lie in memory.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable

from tvm.ir import Expr
from tvm.tirx import op

from moonpoly.compiler.schedule.emitter import Emitter
from moonpoly.compiler.schedule.expression import constant_int, fingerprint, int64, loads, product
from moonpoly.compiler.schedule.footprint import Footprint, footprint, merge_axes
from moonpoly.compiler.schedule.partition import OPERATION_PS, ROW_PS, share, vectors
from moonpoly.compiler.schedule.row_program import (
    RowProgram,
    discard,
    long_axes,
    output_point,
    row_footprint,
    row_point,
    some_result,
)
from moonpoly.compiler.schedule.rule_reduce import accumulate, reduce_term, sum_lanes
from moonpoly.compiler.schedule.stages import Stage
from moonpoly.error import UnsupportedError

# An intermediate row that costs more operations than this is kept rather than computed again.
KEEP_ABOVE = 6


def emit_rows(emitter: Emitter, matched: RowProgram) -> None:
    """Emit a row program."""
    first = matched.reductions[0]
    prints = row_footprint(matched)
    reduced = long_axes(first.reduce_axes)
    across = prints.num_unit_strides(matched.rows[-1].var) if matched.rows else -1
    along = prints.num_unit_strides(reduced[-1].var) if reduced else 0
    if matched.rows and across > along:
        _Across(emitter, matched, prints).emit()
    else:
        _Along(emitter, matched, prints).emit()


class _Rows(ABC):
    """What both ways to walk the rows share."""

    def __init__(self, emitter: Emitter, matched: RowProgram, prints: Footprint) -> None:
        self.emitter = emitter
        self.matched = matched
        self.prints = prints
        self.reduced = list(long_axes(matched.reductions[0].reduce_axes))
        self.kept = self._choose_kept()

    def run(self, rows: list[Expr], columns: Callable[[list[Expr]], list[Expr]]) -> None:
        """Emit all reductions of a row, then its output.

        ``columns`` turns indices of the walk into indices of the reduced axes.
        """
        emitter, matched = self.emitter, self.matched
        key = [fingerprint(row) for row in rows]
        last_use = self._last_reduction_of_kept()
        for number, stage in enumerate(matched.reductions):
            keeps = self.kept is not None and number == last_use

            def term(walk: list[Expr], stage: Stage = stage, keeps: bool = keeps) -> Expr:
                value = reduce_term(emitter, stage, row_point(stage, rows, columns(walk)))
                if keeps and self.kept is not None:
                    point = output_point(matched, rows, columns(walk))
                    kept = emitter.element(self.kept, point)
                    emitter.store(matched.output.buffer, self._offset(point), kept)
                return value

            result = self.reduce(stage, term)

            def read(_emitter: Emitter, indices: list[Expr], result: Expr = result) -> Expr:
                long = [index for index in indices if constant_int(index) is None]
                if [fingerprint(index) for index in long] != [
                    k for row, k in zip(rows, key, strict=True) if constant_int(row) is None
                ]:
                    raise UnsupportedError("expected a row to read its own results only")
                return result

            emitter.resident[stage.buffer] = read
        if self.kept is not None:
            emitter.resident[self.kept.buffer] = lambda reader, indices: reader.load(
                matched.output.buffer, self._offset(indices)
            )
        self.finish(rows, columns)
        for stage in matched.reductions:
            del emitter.resident[stage.buffer]
        if self.kept is not None:
            del emitter.resident[self.kept.buffer]

    @abstractmethod
    def reduce(self, stage: Stage, term: Callable[[list[Expr]], Expr]) -> Expr:
        """Emit one reduction of the row."""

    @abstractmethod
    def finish(self, rows: list[Expr], columns: Callable[[list[Expr]], list[Expr]]) -> None:
        """Emit the output of the row."""

    def write(self, rows: list[Expr], columns: list[Expr]) -> None:
        """Emit one element of the output, or one vector."""
        output = self.matched.output
        point = output_point(self.matched, rows, columns)
        if output.is_reduction:
            value = self.emitter.resident[output.buffer](self.emitter, point)
        else:
            value = self.emitter.element(output, point)
        self.emitter.store(output.buffer, self._offset(point), value)

    def _offset(self, point: list[Expr]) -> Expr:
        return self.emitter.offset(self.matched.output.buffer, point)

    def _choose_kept(self) -> Stage | None:
        """Return a dear stage that a reduction and the output read; the output's memory keeps it.

        That is the exponential of a softmax.
        """
        program, output = self.matched.program, self.matched.output
        if not self.matched.columns:
            return None
        for stage in program.stages:
            if stage.is_reduction or stage is output:
                continue
            readers = program.consumers(stage)
            if output not in readers or not any(reader.is_reduction for reader in readers):
                continue
            axes = [axis.var for axis in output.axes]
            reads = [load for load in loads(output.value) if load.source.same_as(stage.buffer)]
            in_place = all(
                len(load.indices) == len(axes)
                and all(i.same_as(a) for i, a in zip(load.indices, axes, strict=True))
                for load in reads
            )
            same_type = stage.buffer.ty.dtype == output.buffer.ty.dtype
            if in_place and same_type and self._cost(stage) > KEEP_ABOVE:
                return stage
        return None

    def _cost(self, stage: Stage) -> int:
        point: list[Expr] = [axis.var for axis in stage.axes]
        readers = {other.buffer: some_result(other) for other in self.matched.reductions}
        return footprint(
            self.matched.program, lambda r: discard(r.element(stage, point)), readers
        ).num_operations

    def _last_reduction_of_kept(self) -> int:
        """Return which reduction reads the kept stage last: its walk writes it."""
        if self.kept is None:
            return -1
        readers = self.matched.program.consumers(self.kept)
        return max(n for n, stage in enumerate(self.matched.reductions) if stage in readers)


class _Along(_Rows):
    """Elements of a row in the lanes."""

    def emit(self) -> None:
        """Emit the loop over rows."""
        merged, env = merge_axes(self.reduced, self.prints)
        self.extents = [axis.extent for axis in merged]
        self.walked = merged
        length = product(self.extents)
        work = int64(self.prints.num_operations * OPERATION_PS)
        row_ps = op.truncdiv(length * work, int64(self.emitter.lanes)) + int64(ROW_PS * 10)

        def columns(walk: list[Expr]) -> list[Expr]:
            place = {**env, **{a.var: i for a, i in zip(merged, walk, strict=True)}}
            return [place[axis.var] for axis in self.reduced]

        rows = [axis.extent for axis in self.matched.rows]
        share(self.emitter, rows, row_ps, lambda row: self.run(row, columns))

    def reduce(self, stage: Stage, term: Callable[[list[Expr]], Expr]) -> Expr:
        return sum_lanes(self.emitter, stage, self.extents, term)

    def finish(self, rows: list[Expr], columns: Callable[[list[Expr]], list[Expr]]) -> None:
        if not self.matched.columns:
            self.write(rows, [])
            return

        def walk(outer: list[Expr]) -> None:
            if len(outer) == len(self.extents) - 1:
                vectors(
                    self.emitter,
                    int64(0),
                    self.extents[-1],
                    lambda index: self.write(rows, columns([*outer, index])),
                )
                return
            with self.emitter.loop(int64(0), self.extents[len(outer)], "column") as index:
                walk([*outer, index])

        walk([])


class _Across(_Rows):
    """Neighbouring rows in the lanes."""

    def emit(self) -> None:
        """Emit the loop over vectors of rows."""
        merged, env = merge_axes(self.matched.rows, self.prints)
        *outer, inner = merged
        emitter = self.emitter
        lanes = int64(emitter.lanes)
        num_vectors = op.truncdiv(inner.extent + lanes - int64(1), lanes)
        extents = [axis.extent for axis in outer] + [emitter.analyzer.simplify(num_vectors)]
        terms = product([axis.extent for axis in self.reduced])
        vector_ps = terms * int64(self.prints.num_operations * OPERATION_PS) + int64(ROW_PS * 4)

        def body(indices: list[Expr]) -> None:
            placed = {axis.var: i for axis, i in zip(outer, indices, strict=False)}
            start = emitter.bind(indices[-1] * lanes, "first")
            stop = emitter.bind(op.min(start + lanes, inner.extent), "last")

            def one(index: Expr) -> None:
                place = {**env, **placed, inner.var: index}
                self.run([place[axis.var] for axis in self.matched.rows], lambda walk: walk)

            vectors(emitter, start, stop, one)

        share(emitter, extents, vector_ps, body)

    def reduce(self, stage: Stage, term: Callable[[list[Expr]], Expr]) -> Expr:
        return accumulate(self.emitter, stage, [axis.extent for axis in self.reduced], term)

    def finish(self, rows: list[Expr], columns: Callable[[list[Expr]], list[Expr]]) -> None:
        def walk(outer: list[Expr]) -> None:
            if len(outer) == len(self.reduced) or not self.matched.columns:
                self.write(rows, outer)
                return
            with self.emitter.loop(int64(0), self.reduced[len(outer)].extent, "column") as index:
                walk([*outer, index])

        walk([])
