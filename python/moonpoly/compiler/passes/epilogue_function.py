"""From a fused expression to the PrimFunc that applies it to one block of the output.

The function's arguments are ``(C, e0, e1, …)``: C has shape (m, n) and strides (ldc, 1) and is
changed in place; an operand has shape (n,) for ``col``, (m,) for ``row``, (m, n) with strides
(ld, 1) for ``full`` and (1,) for ``scalar``.

A row is cut into vectors. What is left over at its end is covered by one more vector that overlaps
the last whole one: it is computed first, from the old values, and stored last. Rows shorter than a
vector go element by element.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import tvm
from tvm import tirx
from tvm.ir import Expr

from moonpoly.compiler.passes.epilogue_ops import find_rule
from moonpoly.compiler.schedule.vector_math import constant
from moonpoly.compiler.sites import OperandKind


@dataclass(frozen=True)
class Ref:
    """An operand of a step: an earlier step (-1 is the product itself) or an extra operand."""

    kind: Literal["step", "operand"]
    index: int


@dataclass(frozen=True)
class Step:
    """One operator: its Relax call, and where its operands come from; a float is a constant."""

    call: tvm.ir.Call
    args: tuple[Ref | float, ...]


def build_epilogue(
    steps: Sequence[Step], operands: Sequence[OperandKind], lanes: int
) -> tirx.PrimFunc:
    """Return the PrimFunc of ``steps``; the last one is the result.

    Parameters
    ----------
    steps
        In an order in which each one's operands come before it.
    operands
        How each extra operand is broadcast.
    lanes
        float32 lanes of the target's vector registers.
    """
    return _Builder(steps, operands, lanes).function()


class _Statements:
    """A binder that collects one statement for each intermediate value."""

    def __init__(self) -> None:
        self.list: list[tirx.Stmt] = []

    def bind(self, value: Expr, hint: str = "v") -> Expr:
        if isinstance(value, tvm.ir.Var | tirx.FloatImm | tirx.Broadcast):
            return value
        var = tirx.Var(hint, value.ty)
        self.list.append(tirx.Bind(var, value))
        return var


class _Builder:
    def __init__(self, steps: Sequence[Step], operands: Sequence[OperandKind], lanes: int) -> None:
        self.steps = steps
        self.kinds = operands
        self.lanes = lanes
        self.m, self.n = _index("m"), _index("n")
        self.c = _matrix("C", self.m, self.n, _index("ldc"))
        self.operands = [self._declare(k, kind) for k, kind in enumerate(operands)]
        self.row = _index("i")

    def function(self) -> tirx.PrimFunc:
        body = tirx.For(self.row, _int(0), self.m, tirx.ForKind.SERIAL, self._row())
        func = tirx.PrimFunc([self.c, *self.operands], body)
        return func.with_attrs({"s_tir": True, "tirx.noalias": True, "tirx.is_scheduled": True})

    def _declare(self, position: int, kind: OperandKind) -> tirx.Buffer:
        name = f"e{position}"
        if kind == "full":
            return _matrix(name, self.m, self.n, _index(f"ld{position}"))
        size = {"col": self.n, "row": self.m, "scalar": _int(1)}[kind]
        # An operand is a slice of a tensor: nothing is known of its address.
        return tirx.decl_buffer((size,), "float32", name=name, data_alignment=4)

    def _row(self) -> tirx.Stmt:
        lanes = _int(self.lanes)
        last = self.n - lanes
        ragged = self.n % lanes > _int(0)
        tail = tirx.decl_buffer((lanes,), "float32", name="tail", scope="local")
        panel, column = _index("j"), _index("j")
        saved = tirx.Ramp(_int(0), _int(1), self.lanes)
        compute_tail = self._compute(last, self.lanes)
        compute_tail[-1] = tirx.BufferStore(tail, compute_tail[-1], [saved])
        store_tail = tirx.BufferStore(
            self.c, tail[saved], [self.row, tirx.Ramp(last, _int(1), self.lanes)]
        )
        vectors = tirx.SeqStmt(
            [
                tirx.AllocBuffer(tail),
                tirx.IfThenElse(ragged, _sequence(compute_tail), None),
                tirx.For(
                    panel,
                    _int(0),
                    self.n // lanes,
                    tirx.ForKind.SERIAL,
                    self._update(panel * lanes, self.lanes),
                ),
                tirx.IfThenElse(ragged, store_tail, None),
            ]
        )
        elements = tirx.For(column, _int(0), self.n, tirx.ForKind.SERIAL, self._update(column, 1))
        return tirx.IfThenElse(self.n >= lanes, vectors, elements)

    def _update(self, column: Expr, lanes: int) -> tirx.Stmt:
        """Compute ``lanes`` elements from ``column`` on and store them in their place."""
        statements = self._compute(column, lanes)
        index = [self.row, _span(column, lanes)]
        statements[-1] = tirx.BufferStore(self.c, statements[-1], index)
        return _sequence(statements)

    def _compute(self, column: Expr, lanes: int) -> list:
        """Return the statements that bind intermediate values, and at the end the result."""
        statements = _Statements()
        span = _span(column, lanes)
        values = {-1: statements.bind(self.c[self.row, span], "acc")}
        loaded: dict[int, Expr] = {}
        for position, step in enumerate(self.steps):
            args = []
            for arg in step.args:
                if isinstance(arg, float):
                    args.append(constant(arg, values[-1]))
                elif arg.kind == "step":
                    args.append(values[arg.index])
                else:
                    if arg.index not in loaded:
                        value = self._load(arg.index, span, lanes)
                        loaded[arg.index] = statements.bind(value, f"x{arg.index}")
                    args.append(loaded[arg.index])
            rule = find_rule(step.call)
            assert rule is not None, "only operators with a rule are made steps"
            values[position] = statements.bind(rule(statements, args, step.call), "v")
        return [*statements.list, values[len(self.steps) - 1]]

    def _load(self, position: int, span: Expr, lanes: int) -> Expr:
        operand, kind = self.operands[position], self.kinds[position]
        if kind == "full":
            return operand[self.row, span]
        if kind == "col":
            return operand[span]
        value = operand[self.row if kind == "row" else _int(0)]
        return value if lanes == 1 else tirx.Broadcast(value, lanes)


def _index(name: str) -> tirx.Var:
    return tirx.Var(name, "int64")


def _int(value: int) -> Expr:
    return tirx.const(value, "int64")


def _span(column: Expr, lanes: int) -> Expr:
    return column if lanes == 1 else tirx.Ramp(column, _int(1), lanes)


def _matrix(name: str, rows: Expr, columns: Expr, stride: Expr) -> tirx.Buffer:
    return tirx.decl_buffer(
        (rows, columns), "float32", name=name, strides=(stride, _int(1)), data_alignment=4
    )


def _sequence(statements: list[tirx.Stmt]) -> tirx.Stmt:
    return statements[0] if len(statements) == 1 else tirx.SeqStmt(statements)
