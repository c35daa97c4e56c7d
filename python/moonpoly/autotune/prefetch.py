"""Turn a schedule's prefetch annotations into prefetch instructions.

TVM has the instruction but no schedule primitive for it. A loop that carries the annotations gets,
at the end of its body, one prefetch for each different address of the named operand that the body
reads, as many iterations ahead as asked. Prefetching past the end of a tensor is harmless: the
address is never read.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import tvm
import tvm_ffi
from tvm import s_tir, tirx
from tvm.sym import Analyzer

from moonpoly.schedules.space import PREFETCH_DISTANCE, PREFETCH_LEVEL, PREFETCH_OPERAND

_ANNOTATIONS = (PREFETCH_OPERAND, PREFETCH_DISTANCE, PREFETCH_LEVEL)
_READ, _DATA = 0, 1


def insert_prefetch(func: tirx.PrimFunc) -> tirx.PrimFunc:
    """Return ``func`` with its prefetch annotations replaced by instructions.

    Requires scheduled blocks (before lowering). Loops inside an annotated one must have constant
    extents; their vectorized loops count as one access.
    """

    def rewrite(loop: tirx.For) -> tirx.For:
        if PREFETCH_DISTANCE not in loop.annotations:
            return loop
        kept = {key: value for key, value in loop.annotations.items() if key not in _ANNOTATIONS}
        body = loop.body
        if (steps := int(loop.annotations[PREFETCH_DISTANCE])) > 0:
            operand = func.params[int(loop.annotations[PREFETCH_OPERAND])]
            level = int(loop.annotations[PREFETCH_LEVEL])
            body = tirx.SeqStmt([body, *_prefetches(loop, operand, steps, level)])
        return tirx.For(loop.loop_var, loop.min, loop.extent, loop.kind, body, None, kept)

    return func.with_body(tvm_ffi.structural_map(func.body, (tirx.For, rewrite)))


def _prefetches(
    loop: tirx.For, operand: tirx.Var, steps: int, level: int
) -> Iterator[tirx.Evaluate]:
    nest, realize = _innermost(loop.body)
    bindings = dict(zip((v.var for v in realize.block.iter_vars), realize.iter_values, strict=True))
    load = _load_of(realize.block.body, operand)
    extents = [1 if inner.kind == tirx.ForKind.VECTORIZED else int(inner.extent) for inner in nest]
    # The distance is in steps of the reduction; the inner loop that shares the axis is its unroll.
    unroll = int(nest[0].extent)
    seen: set[str] = set()
    for point in itertools.product(*(range(extent) for extent in extents)):
        values = {inner.loop_var: _int64(at) for inner, at in zip(nest, point, strict=True)}
        values[loop.loop_var] = loop.loop_var + _int64(-(-steps // unroll))
        indices = [
            _simplify(_substitute(_substitute(index, bindings), values)) for index in load.indices
        ]
        if (key := str(indices)) not in seen:
            seen.add(key)
            address = tirx.address_of(tirx.BufferLoad(operand, indices))
            yield tirx.Evaluate(
                tirx.call_intrin("void", "tirx.prefetch", address, _READ, level, _DATA)
            )


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
