"""Turn a schedule's prefetch annotations into prefetch instructions.

TVM has the instruction but no schedule primitive for it. A loop that carries the annotations gets,
at the end of its body, one prefetch for each different address of the named operand that the body
reads, as many iterations ahead as asked. Prefetching past the end of a tensor is harmless: the
address is never read.

Prefetches cost an outer kernel a few per cent in cache, and 20 % in tiles of one panel, whose loads
are the limit. So it is compiled in three versions: without any; with those of B that were searched,
for the first rows that meet panels beyond the own caches; and with prefetches of the rows of A that
the next tile reads, which must follow this tile's without a gap. A tall product reads A just once,
and what is known of it a tile ahead the processor can't guess from a dozen rows.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence

import tvm
import tvm_ffi
from tvm import s_tir, tirx
from tvm.sym import Analyzer

from moonpoly.schedules.space import PREFETCH_DISTANCE, PREFETCH_LEVEL, PREFETCH_OPERAND

_ANNOTATIONS = (PREFETCH_OPERAND, PREFETCH_DISTANCE, PREFETCH_LEVEL)
_READ, _DATA = 0, 1
_SECOND_CACHE = 2
_LINE_FLOATS = 16

# B of an outer kernel is (panels, k, lanes).
_PANEL_DIMS = 3


def reads_panels(func: tirx.PrimFunc) -> bool:
    """Return whether a kernel is of the outer family, which reads B in panels."""
    return len(func.params[1].shape) == _PANEL_DIMS


def insert_prefetch(
    func: tirx.PrimFunc, *, searched: bool = True, next_rows: bool = False
) -> tirx.PrimFunc:
    """Return ``func`` with its prefetch annotations replaced by instructions.

    Requires scheduled blocks (before lowering). Loops inside an annotated one must have constant
    extents; their vectorized loops count as one access.

    Parameters
    ----------
    func
        A scheduled kernel.
    searched
        Whether the prefetches that the annotations ask for are inserted, or only removed.
    next_rows
        Whether the next tile's rows of A are prefetched too; for kernels of the outer family.
    """

    def rewrite(loop: tirx.For) -> tirx.For:
        if PREFETCH_DISTANCE not in loop.annotations:
            return loop
        kept = {key: value for key, value in loop.annotations.items() if key not in _ANNOTATIONS}
        body = loop.body
        added: list[tirx.Evaluate] = []
        if searched and (steps := int(loop.annotations[PREFETCH_DISTANCE])) > 0:
            operand = func.params[int(loop.annotations[PREFETCH_OPERAND])]
            level = int(loop.annotations[PREFETCH_LEVEL])
            added += _prefetches(loop, operand, steps, level)
        if next_rows:
            added += _prefetches_of_next_rows(loop, func.params[0])
        if added:
            body = tirx.SeqStmt([body, *added])
        return tirx.For(loop.loop_var, loop.min, loop.extent, loop.kind, body, None, kept)

    return func.with_body(tvm_ffi.structural_map(func.body, (tirx.For, rewrite)))


def _prefetches(
    loop: tirx.For, operand: tirx.Var, steps: int, level: int
) -> Iterator[tirx.Evaluate]:
    nest, realize = _innermost(loop.body)
    # The distance is in steps of the reduction; the inner loop that shares the axis is its unroll.
    unroll = int(nest[0].extent)
    ahead = loop.loop_var + _int64(-(-steps // unroll))
    for indices in _distinct_indices(nest, realize, operand, {loop.loop_var: ahead}):
        yield _prefetch(operand, indices, level)


def _prefetches_of_next_rows(loop: tirx.For, a: tirx.Var) -> Iterator[tirx.Evaluate]:
    """Yield what an iteration prefetches of the next tile's rows of A: its part of their bytes."""
    nest, realize = _innermost(loop.body)
    unroll = int(nest[0].extent)
    start = {loop.loop_var: _int64(0), nest[0].loop_var: _int64(0)}
    rows = _distinct_indices(nest[1:], realize, a, start)
    next_row = rows[0][0] + _int64(len(rows))
    floats = unroll * len(rows)
    for line in range(0, floats, _LINE_FLOATS):
        yield _prefetch(a, [next_row, loop.loop_var * _int64(floats) + _int64(line)], _SECOND_CACHE)


def _distinct_indices(
    nest: Sequence[tirx.For],
    realize: s_tir.SBlockRealize,
    operand: tirx.Var,
    values: dict[tirx.Var, tvm.ir.Expr],
) -> list[list[tvm.ir.Expr]]:
    """Return where the block reads ``operand`` in all points of ``nest``, each index once."""
    bindings = dict(zip((v.var for v in realize.block.iter_vars), realize.iter_values, strict=True))
    load = _load_of(realize.block.body, operand)
    extents = [1 if inner.kind == tirx.ForKind.VECTORIZED else int(inner.extent) for inner in nest]
    found: dict[str, list[tvm.ir.Expr]] = {}
    for point in itertools.product(*(range(extent) for extent in extents)):
        at = {inner.loop_var: _int64(i) for inner, i in zip(nest, point, strict=True)} | values
        indices = [_simplify(_substitute(_substitute(i, bindings), at)) for i in load.indices]
        found.setdefault(str(indices), indices)
    return list(found.values())


def _prefetch(operand: tirx.Var, indices: list[tvm.ir.Expr], level: int) -> tirx.Evaluate:
    address = tirx.address_of(tirx.BufferLoad(operand, indices))
    return tirx.Evaluate(tirx.call_intrin("void", "tirx.prefetch", address, _READ, level, _DATA))


def _innermost(stmt: tirx.Stmt) -> tuple[list[tirx.For], s_tir.SBlockRealize]:
    nest = []
    while isinstance(stmt, tirx.For):
        nest.append(stmt)
        stmt = stmt.body
    return nest, stmt


def _load_of(stmt: tirx.Stmt, operand: tirx.Var) -> tvm.ir.TensorLoad:
    found: list[tvm.ir.TensorLoad] = []

    def visit(load: tvm.ir.TensorLoad) -> None:
        if load.source.same_as(operand):
            found.append(load)

    tvm_ffi.structural_walk(stmt, (tvm.ir.TensorLoad, visit))
    return found[0]


def _substitute(expr: tvm.ir.Expr, values: dict[tirx.Var, tvm.ir.Expr]) -> tvm.ir.Expr:
    return tvm_ffi.structural_map(expr, (tirx.Var, lambda var: values.get(var, var)))


def _simplify(expr: tvm.ir.Expr) -> tvm.ir.Expr:
    return Analyzer().simplify(expr)


def _int64(value: int) -> tirx.IntImm:
    return tirx.IntImm("int64", value)
