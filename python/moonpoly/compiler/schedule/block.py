"""Put statements together: names for values, loops and branches with lexical scope."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from moonpoly.compiler.schedule.expression import (
    INDEX_DTYPE,
    int64,
    num_lanes,
    scalar_dtype,
)
from tvm import tirx
from tvm.ir import Expr, TensorLoad, Var
from tvm.tirx import ForKind, Stmt


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
        if str(value.ty.dtype).startswith("bool"):
            return value
        if not isinstance(value, TensorLoad):
            # TVM's simplifier puts the value of a plain binding wherever its name stands, which
            # grows without bound in a chain of polynomials. It leaves what is read from memory
            # alone, and LLVM turns this memory back into a register.
            cell = self._cell(value, hint)
            self.add(tirx.BufferStore(cell, value, self._whole(value)))
            value = tirx.BufferLoad(cell, self._whole(value))
        var = self.fresh(hint, str(value.ty.dtype))
        self.add(tirx.Bind(var, value))
        return var

    def _cell(self, value: Expr, hint: str) -> Var:
        lanes = num_lanes(value)
        cell = tirx.decl_buffer([int64(lanes)], scalar_dtype(value), self.fresh(hint).name)
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
        """Open a loop over ``start <= i < stop``."""
        var = self.fresh(hint)
        with self.scope() as body:
            yield var
        if body:
            self.add(tirx.For(var, start, stop - start, kind, tirx.stmt_seq(*body)))

    @contextmanager
    def branch(self, condition: Expr) -> Iterator[None]:
        """Open a branch that is taken if ``condition`` holds."""
        with self.scope() as body:
            yield
        if body:
            self.add(tirx.IfThenElse(condition, tirx.stmt_seq(*body), None))

    def choose(self, condition: Expr, then: list[Stmt], otherwise: list[Stmt]) -> None:
        """Append ``if condition: then; else: otherwise``, both collected by ``scope``."""
        self.add(
            tirx.IfThenElse(
                condition,
                tirx.stmt_seq(*then),
                tirx.stmt_seq(*otherwise) if otherwise else None,
            )
        )

    def statement(self) -> Stmt:
        """Return everything so far as one statement."""
        return tirx.stmt_seq(*self._statements) if self._statements else tirx.Evaluate(int64(0))
