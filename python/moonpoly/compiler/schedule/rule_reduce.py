"""Reductions over any axes: sums, means, maxima."""

from __future__ import annotations

from collections.abc import Callable

from tvm import tirx
from tvm.ir import Expr, Var
from tvm.tirx import op

from moonpoly.compiler.schedule.emitter import Emitter, Frame
from moonpoly.compiler.schedule.expression import (
    constant_int,
    fingerprint,
    int32,
    int64,
    product,
)
from moonpoly.compiler.schedule.footprint import footprint, merge_axes
from moonpoly.compiler.schedule.partition import OPERATION_PS, ROW_PS, share, vectors
from moonpoly.compiler.schedule.stages import COMBINERS, Axis, Stage
from moonpoly.compiler.schedule.vector_builder import at

# Vectors that are accumulated side by side: hides the latency of one addition.
NUM_ACCUMULATORS = 4
# Terms summed up in one go before the partial sum is added to the total: bounds the rounding error
# of a sum of n terms by (n / SUM_BLOCK + SUM_BLOCK) ulp in place of n.
SUM_BLOCK = 128

_OPERATIONS = {name: kind for kind, name in COMBINERS.items()}


def combine(combiner: str, left: Expr, right: Expr) -> Expr:
    """Return both partial results as one."""
    return _OPERATIONS[combiner](left, right)


def emit_reduce(emitter: Emitter, stage: Stage, output: Var) -> None:
    """Emit a reduction: vectors along the reduced axis or across it, as the operands lie."""
    indices = [axis.var for axis in stage.axes]

    def evaluate(recorder: Emitter) -> None:
        recorder.element(stage, list(indices))

    prints = footprint(emitter.program, evaluate, emitter.resident)
    reduced = [axis for axis in stage.reduce_axes if constant_int(axis.extent) != 1]
    kept = [axis for axis in stage.axes if constant_int(axis.extent) != 1]
    across = prints.num_unit_strides(kept[-1].var) if kept else -1
    along = prints.num_unit_strides(reduced[-1].var) if reduced else -1
    if kept and across >= along:
        prints.accesses.append((output, emitter.offset(output, list(indices))))
        _reduce_across(
            emitter, stage, output, prints.num_operations, merge_axes(stage.axes, prints)
        )
    else:
        merged = merge_axes(stage.reduce_axes, prints)
        _reduce_along(emitter, stage, output, prints.num_operations, merged)


def _reduce_along(
    emitter: Emitter,
    stage: Stage,
    output: Var,
    num_operations: int,
    merged: tuple[list[Axis], dict[Var, Expr]],
) -> None:
    """One row after the other, its elements in the lanes."""
    axes, env = merged
    kept = [axis for axis in stage.axes if constant_int(axis.extent) != 1]
    units = {axis.var: int64(0) for axis in stage.axes if constant_int(axis.extent) == 1}
    terms = product([axis.extent for axis in axes])
    row_ps = op.truncdiv(terms * int64(num_operations * OPERATION_PS), int64(emitter.lanes))

    def body(row: list[Expr]) -> None:
        point = {**units, **{axis.var: index for axis, index in zip(kept, row, strict=True)}}

        def term(indices: list[Expr]) -> Expr:
            inner = {axis.var: index for axis, index in zip(axes, indices, strict=True)}
            return reduce_term(emitter, stage, {**point, **env, **inner})

        value = sum_lanes(emitter, stage, [axis.extent for axis in axes], term)
        emitter.store(output, emitter.offset(output, [point[a.var] for a in stage.axes]), value)

    share(emitter, [axis.extent for axis in kept], row_ps + int64(ROW_PS * 5), body)


def reduce_term(emitter: Emitter, stage: Stage, env: dict[Var, Expr]) -> Expr:
    """Return the term of a reduction at a point of all its axes."""
    key = (
        stage.buffer.__chandle__(),
        *(fingerprint(env[axis.var]) for axis in (*stage.axes, *stage.reduce_axes)),
    )
    return emitter.value(stage.value, Frame(env, key))


def sum_lanes(
    emitter: Emitter, stage: Stage, extents: list[Expr], term: Callable[[list[Expr]], Expr]
) -> Expr:
    """Emit the reduction of a row and return the result, a scalar.

    Parameters
    ----------
    extents
        The row's axes; the last one lies in the lanes.
    term
        Gives the vector of terms at indices, the last of them symbolic in the lane.
    """
    lanes = emitter.lanes
    dtype = str(stage.buffer.ty.dtype)
    partial = emitter.allocate([int64(NUM_ACCUMULATORS * lanes)], dtype, "partial")
    identity = tirx.Broadcast(stage.identity, lanes)

    def slot(number: int) -> list[Expr]:
        return at(partial, tirx.Ramp(int64(number * lanes), int64(1), lanes))

    def update(number: int, indices: list[Expr]) -> None:
        value = emitter.widen(term(indices))
        mask = emitter.mask()
        if mask is not None:
            value = tirx.Select(mask, value, identity)
        value = combine(stage.combiner, tirx.BufferLoad(partial, slot(number)), value)
        emitter.add(tirx.BufferStore(partial, value, slot(number)))

    for number in range(NUM_ACCUMULATORS):
        emitter.add(tirx.BufferStore(partial, identity, slot(number)))

    def walk(outer: list[Expr]) -> None:
        if len(outer) < len(extents) - 1:
            with emitter.loop(int64(0), extents[len(outer)], "k") as index:
                walk([*outer, index])
            return
        step = int64(NUM_ACCUMULATORS * lanes)
        length = extents[-1]
        fixed = constant_int(length)
        done: Expr = int64(0)
        if fixed is None or fixed >= NUM_ACCUMULATORS * lanes:
            groups = emitter.analyzer.simplify(op.truncdiv(length, step))
            with emitter.loop(int64(0), groups, "group") as group:
                for number in range(NUM_ACCUMULATORS):
                    first = group * step + int64(number * lanes)
                    update(number, [*outer, first + emitter.lane])
            done = emitter.bind(emitter.analyzer.simplify(groups * step), "done")
        vectors(emitter, done, length, lambda index: update(0, [*outer, index]))

    walk([])
    sums = [tirx.BufferLoad(partial, slot(number)) for number in range(NUM_ACCUMULATORS)]
    halves = [combine(stage.combiner, *sums[n : n + 2]) for n in range(0, NUM_ACCUMULATORS, 2)]
    total = emitter.bind(combine(stage.combiner, *halves), "total")
    return fold_lanes(emitter, stage.combiner, total, lanes)


def fold_lanes(emitter: Emitter, combiner: str, vector: Expr, lanes: int) -> Expr:
    """Return the reduction of the lanes of ``vector``."""
    while lanes > 1:
        lanes //= 2
        low = tirx.Shuffle([vector], [int32(lane) for lane in range(lanes)])
        high = tirx.Shuffle([vector], [int32(lane) for lane in range(lanes, 2 * lanes)])
        vector = emitter.bind(combine(combiner, low, high), "fold")
    return vector


def _reduce_across(
    emitter: Emitter,
    stage: Stage,
    output: Var,
    num_operations: int,
    merged: tuple[list[Axis], dict[Var, Expr]],
) -> None:
    """Neighbouring results in the lanes, one term after the other."""
    axes, env = merged
    *outer, inner = axes
    reduced = [axis for axis in stage.reduce_axes if constant_int(axis.extent) != 1]
    units = {a.var: int64(0) for a in stage.reduce_axes if constant_int(a.extent) == 1}
    lanes = int64(emitter.lanes)
    terms = product([axis.extent for axis in reduced])
    vector_ps = terms * int64(num_operations * OPERATION_PS) + int64(ROW_PS)
    num_vectors = op.truncdiv(inner.extent + lanes - int64(1), lanes)
    extents = [axis.extent for axis in outer] + [emitter.analyzer.simplify(num_vectors)]

    def body(indices: list[Expr]) -> None:
        placed = {axis.var: index for axis, index in zip(outer, indices, strict=False)}
        start = indices[-1] * lanes
        stop = op.min(start + lanes, inner.extent)

        def one(index: Expr) -> None:
            point = {**env, **units, **placed, inner.var: index}

            def term(k: list[Expr]) -> Expr:
                inside = {axis.var: i for axis, i in zip(reduced, k, strict=True)}
                return reduce_term(emitter, stage, {**point, **inside})

            value = accumulate(emitter, stage, [axis.extent for axis in reduced], term)
            emitter.store(output, emitter.offset(output, [point[a.var] for a in stage.axes]), value)

        vectors(emitter, emitter.bind(start, "first"), emitter.bind(stop, "last"), one)

    share(emitter, extents, vector_ps, body)


def accumulate(
    emitter: Emitter, stage: Stage, extents: list[Expr], term: Callable[[list[Expr]], Expr]
) -> Expr:
    """Emit the reduction of a vector of results and return it."""
    dtype = str(stage.buffer.ty.dtype)
    lanes = emitter.lanes
    total = emitter.allocate([int64(lanes)], dtype, "total")
    slot = at(total, tirx.Ramp(int64(0), int64(1), lanes))
    identity = tirx.Broadcast(stage.identity, lanes)
    emitter.add(tirx.BufferStore(total, identity, slot))

    def update(buffer: Var, value: Expr) -> None:
        value = combine(stage.combiner, tirx.BufferLoad(buffer, slot), emitter.widen(value))
        emitter.add(tirx.BufferStore(buffer, value, slot))

    def walk(outer: list[Expr]) -> None:
        if len(outer) == len(extents):
            update(total, term(outer))
            return
        extent = extents[len(outer)]
        last = len(outer) == len(extents) - 1
        fixed = constant_int(extent)
        if not last or stage.combiner != "sum" or (fixed is not None and fixed <= SUM_BLOCK):
            with emitter.loop(int64(0), extent, "k") as index:
                walk([*outer, index])
            return
        blocks = op.truncdiv(extent + int64(SUM_BLOCK - 1), int64(SUM_BLOCK))
        with emitter.loop(int64(0), blocks, "k_block") as block:
            partial = emitter.allocate([int64(lanes)], dtype, "partial")
            emitter.add(tirx.BufferStore(partial, identity, slot))
            start = emitter.bind(block * int64(SUM_BLOCK), "k_start")
            stop = emitter.bind(op.min(start + int64(SUM_BLOCK), extent), "k_stop")
            with emitter.loop(start, stop, "k") as index:
                update(partial, term([*outer, index]))
            update(total, tirx.BufferLoad(partial, slot))

    walk([])
    return emitter.bind(tirx.BufferLoad(total, slot), "result")
