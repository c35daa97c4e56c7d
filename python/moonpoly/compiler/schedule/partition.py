"""Share loops among threads, or not: decided at run time from the work that there is."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tvm.ir import Expr
from tvm.tirx import ForKind, op

from moonpoly.compiler.schedule.emitter import Emitter
from moonpoly.compiler.schedule.expression import constant_int, int64, product

# A parallel launch costs about 2 µs, so a loop must have several times that to gain from one.
SERIAL_PS = 8_000_000
# Work for one task: small enough that the threads end together.
TASK_PS = 1_000_000
MAX_TASKS = 256

# What one vector operation takes when its operands are in a near cache.
OPERATION_PS = 200
# What starting a row takes.
ROW_PS = 2_000


def share(
    emitter: Emitter,
    extents: Sequence[Expr],
    item_ps: Expr,
    body: Callable[[list[Expr]], None],
    prepare: Callable[[], None] | None = None,
) -> None:
    """Emit a loop nest that is shared among threads if that pays.

    Parameters
    ----------
    extents
        The loops, outermost first. Any of them may be run by any thread, in any order.
    item_ps
        Estimated picoseconds for one run of ``body``.
    body
        Emits the inside, given the loop indices. It is called more than once.
    prepare
        Emits what each thread does before its first item, such as allocating scratch memory.
    """
    total = product(list(extents))
    work = emitter.analyzer.simplify(total * item_ps)
    if constant_int(total) is None:
        # A zero-size dimension would be divided by.
        with emitter.branch(total > int64(0)):
            _share(emitter, extents, total, work, body, prepare)
    elif constant_int(total) != 0:
        _share(emitter, extents, total, work, body, prepare)


def _share(
    emitter: Emitter,
    extents: Sequence[Expr],
    total: Expr,
    work: Expr,
    body: Callable[[list[Expr]], None],
    prepare: Callable[[], None] | None,
) -> None:
    fixed = constant_int(work)
    with emitter.scope() as serial:
        if prepare is not None:
            prepare()
        _walk(emitter, extents, int64(0), total, body)
    if fixed is not None and fixed < SERIAL_PS:
        for statement in serial:
            emitter.add(statement)
        return
    with emitter.scope() as parallel:
        tasks = op.max(op.min(work // int64(TASK_PS), int64(MAX_TASKS)), int64(1))
        tasks = emitter.bind(op.min(tasks, total), "tasks")
        with emitter.loop(int64(0), tasks, "task", ForKind.PARALLEL) as task:
            start = emitter.bind(op.truncdiv(total * task, tasks), "start")
            stop = emitter.bind(op.truncdiv(total * (task + int64(1)), tasks), "stop")
            if prepare is not None:
                prepare()
            _walk(emitter, extents, start, stop, body)
    if fixed is not None:
        for statement in parallel:
            emitter.add(statement)
        return
    emitter.choose(work < int64(SERIAL_PS), serial, parallel)


def _walk(
    emitter: Emitter,
    extents: Sequence[Expr],
    start: Expr,
    stop: Expr,
    body: Callable[[list[Expr]], None],
) -> None:
    """Emit loops over items ``start`` to ``stop`` of the row-major nest ``extents``."""
    if len(extents) == 0:
        body([])
        return
    if len(extents) == 1:
        with emitter.loop(start, stop, "row") as row:
            body([row])
        return
    # Divisions are slow: they are spent on the outer loops, and the innermost is walked plainly.
    inner = extents[-1]
    first = op.truncdiv(start, inner)
    last = op.truncdiv(stop + inner - int64(1), inner)
    with emitter.loop(emitter.bind(first, "first"), last, "outer") as outer:
        indices: list[Expr] = []
        rest = outer
        for extent in reversed(extents[1:-1]):
            indices.insert(0, emitter.bind(op.truncmod(rest, extent), "index"))
            rest = emitter.bind(op.truncdiv(rest, extent), "rest")
        indices.insert(0, rest)
        # From the first item on, every row of the nest begins at its own start.
        is_first = constant_int(start) == 0
        begin = int64(0) if is_first else op.max(start - outer * inner, int64(0))
        end = op.min(stop - outer * inner, inner)
        with emitter.loop(emitter.bind(begin, "begin"), emitter.bind(end, "end"), "row") as row:
            body([*indices, row])


def vectors(emitter: Emitter, start: Expr, stop: Expr, body: Callable[[Expr], None]) -> None:
    """Emit ``body`` for every vector between ``start`` and ``stop``, the last one masked.

    ``body`` gets the index, symbolic in the emitter's lane.
    """
    lanes = emitter.lanes
    count = emitter.analyzer.simplify(stop - start)
    full = emitter.analyzer.simplify(op.truncdiv(count, int64(lanes)))
    rest = emitter.analyzer.simplify(op.truncmod(count, int64(lanes)))
    if constant_int(full) != 0:
        with emitter.loop(int64(0), full, "vector") as vector:
            body(start + vector * int64(lanes) + emitter.lane)
    if constant_int(rest) == 0:
        return
    if constant_int(rest) is not None:
        with emitter.tail(rest):
            body(start + full * int64(lanes) + emitter.lane)
        return
    with emitter.branch(rest > int64(0)), emitter.tail(rest):
        body(start + full * int64(lanes) + emitter.lane)
