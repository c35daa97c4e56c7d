"""Put statements together: names for values, loops and branches with lexical scope."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from tvm import tirx
from tvm.ir import Call, Expr, TensorLoad, Var
from tvm.tirx import ForKind, Stmt

from moonpoly.compiler.schedule.expression import (
    INDEX_DTYPE,
    children,
    int64,
    num_lanes,
    scalar_dtype,
)

# Expressions of no more nodes than this are written out wherever they are used: LLVM computes them
# once all the same, and every name costs time in TVM's passes.
INLINE_SIZE = 8
CELL_SUFFIX = "_cell"


def _is_bool(expr: Expr) -> bool:
    return scalar_dtype(expr) == "bool"


def _reads_memory(expr: Expr) -> bool:
    return isinstance(expr, TensorLoad) or (
        isinstance(expr, Call) and expr.op.name == "tirx.masked_load"
    )


def _is_cell(expr: Expr) -> bool:
    return isinstance(expr, TensorLoad) and expr.source.name.endswith(CELL_SUFFIX)


def _size(expr: Expr) -> int:
    if isinstance(expr, tirx.Broadcast):
        return _size(expr.value)
    return 1 + sum(_size(operand) for operand in children(expr))


class BlockBuilder:
    """A list of statements under construction.

    ``loop`` and ``branch`` open a nested list; what is known inside is forgotten when it closes.
    """

    def __init__(self) -> None:
        self._statements: list[Stmt] = []
        self._names: dict[str, int] = {}
        # Values by what they compute; only those whose definition is in scope.
        self.known: dict[object, Expr] = {}

    def fresh(self, hint: str, dtype: str = INDEX_DTYPE) -> Var:
        """Return a new variable."""
        count = self._names.get(hint, 0)
        self._names[hint] = count + 1
        return Var(f"{hint}_{count}" if count else hint, dtype)

    def bind(self, value: Expr, hint: str = "v") -> Expr:
        """Return a variable that stands for ``value`` from here to the end of the scope."""
        if isinstance(value, (Var, tirx.IntImm, tirx.FloatImm)):
            return value
        # TVM's analyzer, which sees every binding, rejects vectors of booleans.
        if _is_bool(value) or (not _reads_memory(value) and _size(value) <= INLINE_SIZE):
            return value
        return self.opaque(value, hint)

    def opaque(self, value: Expr, hint: str) -> Expr:
        """Return a name for ``value`` that no simplifier looks behind.

        What is read from memory gets a binding. Anything else gets a cell of memory, which LLVM
        turns back into a register: TVM's simplifier would put the value of a binding wherever its
        name stands, which grows without bound in a chain of polynomials.
        """
        if isinstance(value, (Var, tirx.IntImm, tirx.FloatImm)) or _is_cell(value):
            return value
        if isinstance(value, TensorLoad):
            var = self.fresh(hint, str(value.ty.dtype))
            self.add(tirx.Bind(var, value))
            return var
        cell = self._cell(value, hint)
        self.add(tirx.BufferStore(cell, value, self._whole(value)))
        return tirx.BufferLoad(cell, self._whole(value))

    def _cell(self, value: Expr, hint: str) -> Var:
        lanes = num_lanes(value)
        name = self.fresh(hint).name + CELL_SUFFIX
        cell = tirx.decl_buffer([int64(lanes)], scalar_dtype(value), name)
        self.add(tirx.AllocBuffer(cell))
        return cell

    @staticmethod
    def _whole(value: Expr) -> list[Expr]:
        lanes = num_lanes(value)
        return [int64(0)] if lanes == 1 else [tirx.Ramp(int64(0), int64(1), lanes)]

    def add(self, statement: Stmt) -> None:
        """Append a statement."""
        self._statements.append(statement)

    def allocate(self, shape: list[Expr], dtype: str, hint: str) -> Var:
        """Allocate a buffer that lives until the scope ends, aligned for any vector."""
        name = self.fresh(hint).name
        buffer = tirx.decl_buffer(shape, dtype, name, data_alignment=64)
        self.add(tirx.AllocBuffer(buffer))
        return buffer

    @contextmanager
    def scope(self) -> Iterator[list[Stmt]]:
        """Collect statements into a list of their own, which is filled at the end."""
        collected: list[Stmt] = []
        outer = self._statements, self.known
        self._statements, self.known = [], dict(self.known)
        try:
            yield collected
            collected.extend(self._statements)
        finally:
            self._statements, self.known = outer

    @contextmanager
    def loop(
        self, start: Expr, stop: Expr, hint: str = "i", kind: ForKind = ForKind.SERIAL
    ) -> Iterator[Expr]:
        """Open a loop over ``start <= i < stop``.

        The loop counts from zero unless ``start`` is a number: where it is read from memory, TVM's
        flattening of buffers would put a stale copy of it into indices.
        """
        var = self.fresh(hint)
        counts_from_start = isinstance(start, tirx.IntImm)
        with self.scope() as body:
            yield var if counts_from_start else start + var
        if body:
            first = start if counts_from_start else int64(0)
            self.add(tirx.For(var, first, stop - start, kind, tirx.stmt_seq(*body)))

    @contextmanager
    def branch(self, condition: Expr) -> Iterator[None]:
        """Open a branch that is taken if ``condition`` holds."""
        holds = self._flag(condition)
        with self.scope() as body:
            yield
        if body:
            self.add(tirx.IfThenElse(holds, tirx.stmt_seq(*body), None))

    def _flag(self, condition: Expr) -> Expr:
        """Return a condition equal to ``condition`` that TVM's passes don't reason about.

        They would solve it for the loop variables at every access inside, which takes seconds.
        """
        return tirx.NE(self.opaque(tirx.Cast("int32", condition), "flag"), tirx.IntImm("int32", 0))

    def choose(self, condition: Expr, then: list[Stmt], otherwise: list[Stmt]) -> None:
        """Append ``if condition: then; else: otherwise``, both collected by ``scope``."""
        self.add(
            tirx.IfThenElse(
                self._flag(condition),
                tirx.stmt_seq(*then),
                tirx.stmt_seq(*otherwise) if otherwise else None,
            )
        )

    def statement(self) -> Stmt:
        """Return everything so far as one statement."""
        return tirx.stmt_seq(*self._statements) if self._statements else tirx.Evaluate(int64(0))
