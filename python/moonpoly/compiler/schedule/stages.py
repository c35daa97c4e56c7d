"""Read a fused PrimFunc as a list of stages, each computing one buffer."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from tvm import tirx
from tvm.ir import Expr, TensorLoad, Var
from tvm.s_tir import SBlock, SBlockRealize
from tvm.tirx import PrimFunc, Stmt

from moonpoly.compiler.schedule.expression import fingerprint, int64, loads
from moonpoly.error import UnsupportedError

# How two partial results of a reduction are put together.
COMBINERS: dict[type, str] = {
    tirx.Add: "sum",
    tirx.Mul: "product",
    tirx.Max: "max",
    tirx.Min: "min",
    tirx.And: "all",
    tirx.Or: "any",
}


@dataclass(frozen=True)
class Axis:
    """One dimension of a stage's iteration space."""

    var: Var
    extent: Expr


@dataclass(frozen=True)
class Stage:
    """What one block computes.

    Parameters
    ----------
    buffer
        The buffer that is written.
    axes
        One axis for each dimension of the buffer.
    value
        What is stored or, of a reduction, the term that is combined into the result.
    reduce_axes
        Axes that are reduced; empty if every element is computed by itself.
    combiner
        ``"sum"``, ``"max"``, …: one of ``COMBINERS``' values; empty without a reduction.
    identity
        The value that a reduction starts from.
    """

    name: str
    buffer: Var
    axes: tuple[Axis, ...]
    value: Expr
    reduce_axes: tuple[Axis, ...] = ()
    combiner: str = ""
    identity: Expr | None = None

    @property
    def is_reduction(self) -> bool:
        """Whether the stage reduces anything."""
        return bool(self.reduce_axes)


@dataclass(frozen=True)
class Program:
    """A PrimFunc as stages in the order of execution.

    Parameters
    ----------
    stages
        Every stage; a stage reads parameters and what earlier stages wrote.
    intermediates
        The buffers that live inside the function.
    """

    func: PrimFunc
    stages: tuple[Stage, ...]
    intermediates: tuple[Var, ...]
    producers: dict[Var, Stage] = field(default_factory=dict, repr=False)

    @property
    def outputs(self) -> list[Stage]:
        """The stages that write a parameter."""
        return [stage for stage in self.stages if stage.buffer not in self.intermediates]

    def consumers(self, stage: Stage) -> list[Stage]:
        """Return the stages that read what ``stage`` wrote."""
        return [
            other
            for other in self.stages
            if any(load.source.same_as(stage.buffer) for load in loads(other.value))
        ]


def read_program(func: PrimFunc) -> Program:
    """Read ``func``, which no schedule has touched yet.

    Raises
    ------
    UnsupportedError
        If a block is not a plain map or a reduction by one of ``COMBINERS``.
    """
    root = func.body
    if not isinstance(root, SBlockRealize):
        raise UnsupportedError(f"expected a root block, got {type(root).__name__}")
    blocks = [realize.block for realize in _realized_blocks(root.block.body)]
    stages = tuple(_read_block(block) for block in blocks)
    producers: dict[Var, Stage] = {}
    for stage in stages:
        if stage.buffer in producers:
            raise UnsupportedError(f"expected one block to write {stage.buffer.name}, got two")
        producers[stage.buffer] = stage
    return Program(func, stages, tuple(root.block.alloc_buffers), producers)


def _realized_blocks(stmt: Stmt) -> Iterator[SBlockRealize]:
    if isinstance(stmt, SBlockRealize):
        yield stmt
    elif isinstance(stmt, tirx.SeqStmt):
        for part in stmt.seq:
            yield from _realized_blocks(part)
    elif isinstance(stmt, tirx.For):
        yield from _realized_blocks(stmt.body)
    else:
        raise UnsupportedError(f"expected loops around blocks, got {type(stmt).__name__}")


def _read_block(block: SBlock) -> Stage:
    store = block.body
    if not isinstance(store, tirx.BufferStore):
        raise UnsupportedError(f"expected block {block.name_hint} to be one store")
    spatial = {}
    reduced = []
    for iter_var in block.iter_vars:
        axis = Axis(iter_var.var, iter_var.dom.extent)
        if iter_var.iter_type == iter_var.DataPar:
            spatial[iter_var.var] = axis
        elif iter_var.iter_type == iter_var.CommReduce:
            reduced.append(axis)
        else:
            raise UnsupportedError(f"expected block {block.name_hint} to map or reduce")
    axes = []
    for index in store.indices:
        if isinstance(index, Var) and index in spatial:
            axes.append(spatial.pop(index))
        elif isinstance(index, tirx.IntImm) and index.value == 0:
            axes.append(Axis(Var("unit", "int64"), int64(1)))
        else:
            raise UnsupportedError(f"expected block {block.name_hint} to store along its axes")
    if any(
        not (isinstance(axis.extent, tirx.IntImm) and axis.extent.value == 1)
        for axis in spatial.values()
    ):
        raise UnsupportedError(f"expected block {block.name_hint} to store along all its axes")
    if not reduced:
        return Stage(block.name_hint, store.buffer, tuple(axes), store.value)
    combiner, term = _split_update(block, store)
    if not isinstance(block.init, tirx.BufferStore):
        raise UnsupportedError(f"expected block {block.name_hint} to start from a value")
    return Stage(
        block.name_hint, store.buffer, tuple(axes), term, tuple(reduced), combiner, block.init.value
    )


def _split_update(block: SBlock, store: tirx.BufferStore) -> tuple[str, Expr]:
    """Take ``r = r op term`` apart into the name of ``op`` and ``term``."""
    update = store.value
    name = COMBINERS.get(type(update))
    if name is not None:
        accumulator = fingerprint(tirx.BufferLoad(store.buffer, list(store.indices)))
        for own, term in ((update.a, update.b), (update.b, update.a)):
            if isinstance(own, TensorLoad) and fingerprint(own) == accumulator:
                return name, term
    raise UnsupportedError(f"expected block {block.name_hint} to reduce by a known operation")


__all__ = ["COMBINERS", "Axis", "Program", "Stage", "read_program"]
