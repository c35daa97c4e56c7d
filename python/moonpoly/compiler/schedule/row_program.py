"""Stages that share rows: which program is one, and what its rows touch."""

from __future__ import annotations

from dataclasses import dataclass

import tvm
from tvm.ir import Expr, Var

from moonpoly.compiler.schedule.emitter import Emitter, Reader
from moonpoly.compiler.schedule.expression import constant_int, int64
from moonpoly.compiler.schedule.footprint import Footprint, footprint
from moonpoly.compiler.schedule.rule_reduce import reduce_term
from moonpoly.compiler.schedule.stages import Axis, Program, Stage
from moonpoly.error import UnsupportedError


@dataclass(frozen=True)
class RowProgram:
    """Stages that share rows.

    Parameters
    ----------
    rows
        The first reduction's axes that are kept, those of extent 1 left out.
    columns
        The output's axes along the row; empty if the output has one element a row.
    """

    program: Program
    reductions: tuple[Stage, ...]
    output: Stage
    rows: tuple[Axis, ...]
    columns: tuple[Axis, ...]


def match_rows(program: Program) -> RowProgram:
    """Return how ``program`` works row by row.

    Raises
    ------
    UnsupportedError
        If it doesn't.
    """
    reductions = tuple(stage for stage in program.stages if stage.is_reduction)
    outputs = program.outputs
    if not reductions or len(outputs) != 1:
        raise UnsupportedError("expected reductions and one output")
    first, output = reductions[0], outputs[0]
    rows = long_axes(first.axes)
    for stage in reductions[1:]:
        if not (
            _same_extents(long_axes(stage.axes), rows)
            and _same_extents(long_axes(stage.reduce_axes), long_axes(first.reduce_axes))
        ):
            raise UnsupportedError("expected all reductions to be of the same rows")
    if output.is_reduction:
        return RowProgram(program, reductions, output, rows, ())
    indices = _reduction_indices(program, output)
    columns = tuple(
        axis for axis in long_axes(output.axes) if not any(axis.var.same_as(i) for i in indices)
    )
    if columns and not _same_extents(columns, long_axes(first.reduce_axes)):
        raise UnsupportedError("expected the output to lie along the rows")
    return RowProgram(program, reductions, output, rows, columns)


def long_axes(axes: tuple[Axis, ...]) -> tuple[Axis, ...]:
    """Return the axes whose extent isn't known to be 1."""
    return tuple(axis for axis in axes if constant_int(axis.extent) != 1)


def _same_extents(left: tuple[Axis, ...], right: tuple[Axis, ...]) -> bool:
    analyzer = tvm.sym.Analyzer()
    return len(left) == len(right) and all(
        analyzer.can_prove_equal(a.extent, b.extent) for a, b in zip(left, right, strict=True)
    )


def _reduction_indices(program: Program, output: Stage) -> list[Expr]:
    """Return the output's indices at which it reads results of reductions, inlining the rest."""
    found: list[Expr] = []

    def noted(stage: Stage) -> Reader:
        def note(emitter: Emitter, indices: list[Expr]) -> Expr:
            found.extend(indices)
            return emitter.fresh("result", str(stage.buffer.ty.dtype))

        return note

    readers = {stage.buffer: noted(stage) for stage in program.stages if stage.is_reduction}
    point: list[Expr] = [axis.var for axis in output.axes]
    footprint(program, lambda recorder: discard(recorder.element(output, point)), readers)
    return found


def some_result(stage: Stage) -> Reader:
    """Return a reader of a reduction's result that stands for any value."""
    return lambda recorder, _indices: recorder.fresh("result", str(stage.buffer.ty.dtype))


def discard(_value: Expr) -> None:
    """Evaluate for the side effect only."""


def row_footprint(matched: RowProgram) -> Footprint:
    """Return what one element of every stage touches, in terms of the first reduction's axes."""
    first = matched.reductions[0]

    def evaluate(recorder: Emitter) -> None:
        columns = [axis.var for axis in long_axes(first.reduce_axes)]
        rows = [axis.var for axis in matched.rows]
        for stage in matched.reductions:
            reduce_term(recorder, stage, row_point(stage, rows, columns))
        if not matched.output.is_reduction:
            point = output_point(matched, rows, columns)
            value = recorder.element(matched.output, point)
            buffer = matched.output.buffer
            recorder.store(buffer, recorder.offset(buffer, point), value)

    readers = {stage.buffer: some_result(stage) for stage in matched.reductions}
    return footprint(matched.program, evaluate, readers)


def row_point(stage: Stage, rows: list[Expr], columns: list[Expr]) -> dict[Var, Expr]:
    """Place all axes of a reduction."""
    point: dict[Var, Expr] = {a.var: int64(0) for a in (*stage.axes, *stage.reduce_axes)}
    point.update((a.var, i) for a, i in zip(long_axes(stage.axes), rows, strict=True))
    point.update((a.var, i) for a, i in zip(long_axes(stage.reduce_axes), columns, strict=True))
    return point


def output_point(matched: RowProgram, rows: list[Expr], columns: list[Expr]) -> list[Expr]:
    """Return the output's indices at a row and column."""
    place: dict[Var, Expr] = {}
    if matched.columns:
        place.update((a.var, i) for a, i in zip(matched.columns, columns, strict=True))
    kept = [axis for axis in long_axes(matched.output.axes) if axis not in matched.columns]
    place.update((a.var, i) for a, i in zip(kept, rows, strict=True))
    return [place.get(axis.var, int64(0)) for axis in matched.output.axes]
