"""What a stage reads, as a function of its axes; and which axes can be walked as one."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

import tvm
from tvm.ir import Expr, Var

from moonpoly.compiler.schedule.emitter import Emitter, Frame, Reader
from moonpoly.compiler.schedule.expression import constant_int, int64, uses
from moonpoly.compiler.schedule.stages import Axis, Program


@dataclass
class Footprint:
    """What evaluating an element touches.

    Parameters
    ----------
    accesses
        Buffers and the offsets at which they are read or written, in terms of the axes.
    data_uses
        Expressions of axes that enter the computation otherwise than as an address.
    num_operations
        Arithmetic operations for one element; for one vector, at that.
    """

    accesses: list[tuple[Var, Expr]] = field(default_factory=list)
    data_uses: list[Expr] = field(default_factory=list)
    num_operations: int = 0

    def stride(self, access: Expr, axis: Var) -> Expr | None:
        """Return by how much an offset grows along ``axis``; ``None`` if unevenly."""
        parts = tvm.sym.detect_linear_equation(access, [axis])
        return parts[0] if parts and not uses(parts[1], axis) else None

    def num_unit_strides(self, axis: Var) -> int:
        """Return how many accesses are consecutive along ``axis``, less those that jump."""
        score = 0
        for _, offset in self.accesses:
            stride = self.stride(offset, axis)
            fixed = None if stride is None else constant_int(stride)
            score += {0: 0, 1: 1}.get(fixed, -1) if fixed is not None else -1
        return score


def footprint(
    program: Program,
    evaluate: Callable[[Emitter], None],
    resident: Mapping[Var, Reader] | None = None,
) -> Footprint:
    """Run ``evaluate`` on an emitter that notes what it would touch, and emits nothing."""
    recorder = _Recorder(program)
    recorder.resident.update(resident or {})
    evaluate(recorder)
    return recorder.footprint


class _Recorder(Emitter):
    """An emitter of scalar code that is thrown away."""

    def __init__(self, program: Program) -> None:
        super().__init__(program, lanes=1)
        self.footprint = Footprint()
        self._in_index = False
        self._known_in_index: dict[object, Expr] = {}

    def bind(self, value: Expr, hint: str = "v") -> Expr:
        self.footprint.num_operations += 1
        # An address computed from this value would hide the axes in it.
        self.footprint.data_uses.append(value)
        return super().bind(value, hint)

    def value(self, expr: Expr, frame: Frame) -> Expr:
        result = super().value(expr, frame)
        if isinstance(expr, Var) and not self._in_index:
            self.footprint.data_uses.append(result)
        return result

    def _compute(self, expr: Expr, frame: Frame) -> Expr:
        if isinstance(expr, tvm.ir.TensorLoad):
            with self._index():
                indices = [self.value(index, frame) for index in expr.indices]
            return self._load(expr.source, indices)
        return super()._compute(expr, frame)

    @contextmanager
    def _index(self) -> Iterator[None]:
        outer = self._in_index
        self._in_index = True
        self.known, self._known_in_index = self._known_in_index, self.known
        try:
            yield
        finally:
            self.known, self._known_in_index = self._known_in_index, self.known
            self._in_index = outer

    def load(self, buffer: Var, offset: Expr) -> Expr:
        self.footprint.accesses.append((buffer, self.analyzer.simplify(offset)))
        self.footprint.num_operations += 1
        return self.fresh(buffer.name, str(buffer.ty.dtype))

    def store(self, buffer: Var, offset: Expr, value: Expr) -> None:
        self.footprint.accesses.append((buffer, self.analyzer.simplify(offset)))
        self.footprint.num_operations += 1


def merge_axes(axes: Sequence[Axis], prints: Footprint) -> tuple[list[Axis], dict[Var, Expr]]:
    """Merge neighbouring axes that every access walks without a gap, and drop those of extent 1.

    Returns
    -------
    merged
        The axes that are left, at least one.
    env
        The old axes in terms of the new ones. A merged axis stands in for the inner one alone: in
        an address, ``outer * stride * extent + inner * stride`` is the same as ``merged * stride``.
    """
    analyzer = tvm.sym.Analyzer()
    env: dict[Var, Expr] = {}
    merged: list[Axis] = []
    for axis in axes:
        if constant_int(axis.extent) == 1:
            env[axis.var] = int64(0)
        elif merged and _mergeable(merged[-1], axis, prints, analyzer):
            outer = merged.pop()
            env[outer.var] = int64(0)
            merged.append(Axis(axis.var, analyzer.simplify(outer.extent * axis.extent)))
        else:
            merged.append(axis)
    if not merged:
        merged.append(Axis(Var("unit", "int64"), int64(1)))
    return merged, env


def _mergeable(outer: Axis, inner: Axis, prints: Footprint, analyzer: tvm.sym.Analyzer) -> bool:
    if any(uses(use, axis.var) for use in prints.data_uses for axis in (outer, inner)):
        return False
    for _, offset in prints.accesses:
        parts = tvm.sym.detect_linear_equation(offset, [outer.var, inner.var])
        if not parts:
            return False
        outer_stride, inner_stride, rest = parts
        if uses(rest, outer.var) or uses(rest, inner.var):
            return False
        if not analyzer.can_prove_equal(outer_stride, inner_stride * inner.extent):
            return False
    return True
