"""Vectors: what is one value in every lane, and how lanes touch memory.

One axis of the iteration space is spread over the lanes of a vector: its index is ``base + lane``,
where ``lane`` is a variable that stands for 0…L-1. Index arithmetic stays symbolic in ``lane`` as
long as it can, so that a load can be told from its offset: independent of ``lane`` (a scalar),
consecutive in it (a vector), or strided and scattered (gathered).
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import tvm
from tvm import tirx
from tvm.ir import Expr, Var
from tvm.tirx import op

from moonpoly.compiler.schedule.block import BlockBuilder
from moonpoly.compiler.schedule.expression import (
    children,
    constant_int,
    int32,
    int64,
    is_binary,
    is_integer,
    num_lanes,
    rebuild,
    scalar_dtype,
    substitute,
    uses,
    vector_dtype,
)
from moonpoly.error import UnsupportedError


class VectorBuilder(BlockBuilder):
    """A list of statements whose values are vectors of ``lanes`` elements, or the same in all.

    Attributes
    ----------
    lane
        The variable that stands for the lane.
    remaining
        How many lanes are inside the tensor (int32); ``None`` if all are.
    """

    def __init__(self, lanes: int) -> None:
        super().__init__()
        self.lanes = lanes
        self.lane = Var("lane", "int64")
        self.analyzer = tvm.sym.Analyzer()
        self.remaining: Expr | None = None
        self._guards: tuple[Expr, ...] = ()

    # Scopes

    @contextmanager
    def tail(self, remaining: Expr) -> Iterator[None]:
        """Let only the first ``remaining`` (int64) lanes touch memory."""
        outer, outer_known = self.remaining, self.known
        self.remaining = self.bind(tirx.Cast("int32", remaining), "remaining")
        self.known = {}
        try:
            yield
        finally:
            self.remaining, self.known = outer, outer_known

    @contextmanager
    def unmasked(self) -> Iterator[None]:
        """Let every lane touch memory: for scratch memory that is long enough."""
        outer, outer_guards = self.remaining, self._guards
        self.remaining, self._guards = None, ()
        try:
            yield
        finally:
            self.remaining, self._guards = outer, outer_guards

    @contextmanager
    def guarded(self, condition: Expr) -> Iterator[None]:
        """Let memory be touched only where ``condition`` holds."""
        outer, outer_known = self._guards, self.known
        self._guards = (*outer, condition)
        # What was computed outside holds inside, but not the other way round.
        self.known = dict(outer_known)
        try:
            yield
        finally:
            self._guards, self.known = outer, outer_known

    # Lanes

    def varies(self, expr: Expr) -> bool:
        """Whether ``expr`` differs between lanes."""
        return num_lanes(expr) > 1 or uses(expr, self.lane)

    def widen(self, expr: Expr) -> Expr:
        """Return ``expr`` as a vector of all lanes."""
        if num_lanes(expr) > 1:
            return expr
        if not uses(expr, self.lane):
            return tirx.Broadcast(expr, self.lanes)
        if isinstance(expr, (tirx.And, tirx.Or, tirx.Not)):
            return rebuild(expr, [self.widen(operand) for operand in children(expr)])
        if scalar_dtype(expr) == "bool" and is_binary(expr):
            linear = self.linear(expr.a - expr.b)
            if linear is not None and constant_int(linear[0]) is not None:
                # Comparing 32-bit lanes takes one instruction, 64-bit lanes two and more.
                ramp = tirx.Ramp(int32(0), int32(int(linear[0].value)), self.lanes)
                limit = tirx.Cast("int32", self.analyzer.simplify(int64(0) - linear[1]))
                return type(expr)(ramp, tirx.Broadcast(limit, self.lanes))
        if is_integer(expr) and (linear := self.linear(expr)) is not None:
            coefficient, base = linear
            return tirx.Ramp(base, coefficient, self.lanes)
        return rebuild(expr, [self.widen(operand) for operand in children(expr)])

    def pack(self, scalars: list[Expr]) -> Expr:
        """Return a vector of the given scalars."""
        return tirx.Shuffle(scalars, [int32(lane) for lane in range(len(scalars))])

    def mask(self) -> Expr | None:
        """Return which lanes may touch memory; ``None`` if all may."""
        masks = []
        if self.remaining is not None:
            ramp = tirx.Ramp(int32(0), int32(1), self.lanes)
            masks.append(ramp < tirx.Broadcast(self.remaining, self.lanes))
        masks.extend(self.widen(guard) for guard in self._guards)
        if not masks:
            return None
        result = masks[0]
        for mask in masks[1:]:
            result = tirx.And(result, mask)
        return result

    def linear(self, expr: Expr) -> tuple[Expr, Expr] | None:
        """Split an integer into (coefficient of ``lane``, rest); ``None`` if it isn't linear."""
        parts = tvm.sym.detect_linear_equation(self.analyzer.simplify(expr), [self.lane])
        if not parts:
            return None
        coefficient, base = parts
        return None if uses(base, self.lane) else (coefficient, base)

    # Memory

    def offset(self, buffer: Var, indices: list[Expr]) -> Expr:
        """Return the position of an element in its compact buffer; a vector if an index is one."""
        if len(buffer.ty.strides):
            raise UnsupportedError(f"expected {buffer.name} to be compact, got strides")
        indices = [tirx.Cast("int64", i) if scalar_dtype(i) != "int64" else i for i in indices]
        if any(num_lanes(index) > 1 for index in indices):
            indices = [self.widen(index) for index in indices]
        lanes = max((num_lanes(index) for index in indices), default=1)
        position: Expr | None = None
        for index, extent in zip(indices, buffer.ty.shape, strict=True):
            if position is None:
                position = index
            else:
                step = extent if lanes == 1 else tirx.Broadcast(extent, lanes)
                position = position * step + index
        if position is None:
            return int64(0)
        return self.bind(position, "offset") if lanes > 1 else self.analyzer.simplify(position)

    def load(self, buffer: Var, offset: Expr) -> Expr:
        """Return the element at ``offset``, or the vector of elements if it varies by lane."""
        dtype = str(buffer.ty.dtype)
        if num_lanes(offset) > 1:
            if (mask := self.mask()) is not None:
                zero = tirx.Broadcast(int64(0), self.lanes)
                offset = self.bind(tirx.Select(mask, offset, zero), "offset")
            return self._gather(buffer, [tirx.Shuffle([offset], [int32(lane)])
                                         for lane in range(self.lanes)])  # fmt: skip
        linear = self.linear(offset)
        if linear is None:
            return self._gather(buffer, self._lane_offsets(offset))
        stride, base = constant_int(linear[0]), linear[1]
        if stride == 0:
            return self._scalar_load(buffer, base)
        if stride == 1:
            index = tirx.Ramp(base, int64(1), self.lanes)
            mask = self.mask()
            if mask is None:
                return self.bind(tirx.BufferLoad(buffer, at(buffer, index)), buffer.name)
            vector = vector_dtype(dtype, self.lanes)
            return self.bind(op.masked_load(vector, buffer, *at(buffer, index), mask), buffer.name)
        if stride == 2 and self.mask() is None:
            return self._load_every_second(buffer, base)
        return self._gather(buffer, self._lane_offsets(offset))

    def _scalar_load(self, buffer: Var, offset: Expr) -> Expr:
        value = tirx.BufferLoad(buffer, at(buffer, offset))
        uniform = [guard for guard in self._guards if not self.varies(guard)]
        if uniform:
            value = op.if_then_else(op.all(*uniform), value, tirx.const(0, value.ty.dtype))
        return self.bind(value, buffer.name)

    def _load_every_second(self, buffer: Var, base: Expr) -> Expr:
        # The second vector starts at an odd place, so that nothing past the last lane is read.
        lanes = self.lanes
        halves = [
            self.bind(tirx.BufferLoad(buffer, at(buffer, tirx.Ramp(start, int64(1), lanes))))
            for start in (base, base + int64(lanes - 1))
        ]
        picks = [*range(0, lanes, 2), *range(lanes + 1, 2 * lanes, 2)]
        return self.bind(tirx.Shuffle(halves, [int32(pick) for pick in picks]), buffer.name)

    def _lane_offsets(self, offset: Expr) -> list[Expr]:
        offsets = []
        for lane in range(self.lanes):
            index = int64(lane)
            if self.remaining is not None and lane > 0:
                # Past the end, lanes read the last element again.
                index = op.min(index, tirx.Cast("int64", self.remaining) - int64(1))
            offsets.append(self.analyzer.simplify(substitute(offset, {self.lane: index})))
        return offsets

    def _gather(self, buffer: Var, offsets: list[Expr]) -> Expr:
        scalars = []
        zero = tirx.const(0, str(buffer.ty.dtype))
        for lane, offset in enumerate(offsets):
            value = tirx.BufferLoad(buffer, at(buffer, offset))
            guards = []
            for guard in self._guards:
                if num_lanes(guard) > 1:
                    guards.append(tirx.Shuffle([guard], [int32(lane)]))
                else:
                    guards.append(substitute(guard, {self.lane: int64(lane)}))
            scalars.append(op.if_then_else(op.all(*guards), value, zero) if guards else value)
        return self.bind(self.pack(scalars), buffer.name)

    def store(self, buffer: Var, offset: Expr, value: Expr) -> None:
        """Write a scalar at ``offset``, or the lanes of a vector from there on."""
        if not uses(offset, self.lane):
            self.add(tirx.BufferStore(buffer, value, at(buffer, offset)))
            return
        linear = self.linear(offset)
        if linear is None or constant_int(linear[0]) != 1:
            raise UnsupportedError(f"expected consecutive elements of {buffer.name} to be written")
        index = at(buffer, tirx.Ramp(linear[1], int64(1), self.lanes))
        vector = self.widen(value)
        mask = self.mask()
        if mask is None:
            self.add(tirx.BufferStore(buffer, vector, index))
        else:
            self.add(tirx.Evaluate(op.masked_store(buffer, vector, *index, mask)))


def at(buffer: Var, offset: Expr) -> list[Expr]:
    """Return indices that address ``offset`` in a compact buffer."""
    # Flattening adds up index times stride, so the last index may run past its extent.
    rank = len(buffer.ty.shape)
    return [int64(0)] * (rank - 1) + [offset] if rank else []
