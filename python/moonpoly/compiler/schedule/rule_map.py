"""Element-wise chains, broadcasts, casts, slices, concatenations, pads and gathers."""

from __future__ import annotations

from tvm.ir import Expr, Var
from tvm.tirx import op

from moonpoly.compiler.schedule.emitter import Emitter
from moonpoly.compiler.schedule.expression import int64
from moonpoly.compiler.schedule.footprint import Footprint, footprint, merge_axes
from moonpoly.compiler.schedule.partition import OPERATION_PS, ROW_PS, share, vectors
from moonpoly.compiler.schedule.stages import Stage

# Elements that one thread takes at a time, so that one long row can be shared too.
BLOCK = 2048


def emit_map(emitter: Emitter, stage: Stage, output: Var) -> None:
    """Emit a stage whose elements are computed each by itself: vectors along the last axis.

    Axes that all operands walk without a gap become one, so that a chain on tensors of one shape
    is a single loop.
    """
    prints = map_footprint(emitter, stage, output)
    axes, env = merge_axes(stage.axes, prints)
    *outer, inner = axes
    lanes = int64(emitter.lanes)
    block = int64(BLOCK)
    num_blocks = op.truncdiv(inner.extent + block - int64(1), block)
    extents = [axis.extent for axis in outer] + [emitter.analyzer.simplify(num_blocks)]
    vector_ps = int64(prints.num_operations * OPERATION_PS)
    num_vectors = op.truncdiv(op.min(inner.extent, block) + lanes - int64(1), lanes)

    def body(indices: list[Expr]) -> None:
        start = indices[-1] * block
        stop = op.min(start + block, inner.extent)
        placed = {axis.var: index for axis, index in zip(outer, indices, strict=False)}

        def one(index: Expr) -> None:
            point = {**env, **placed, inner.var: index}
            store_element(emitter, stage, output, [point[axis.var] for axis in stage.axes])

        vectors(
            emitter,
            emitter.bind(emitter.analyzer.simplify(start), "first"),
            emitter.bind(emitter.analyzer.simplify(stop), "last"),
            one,
        )

    share(emitter, extents, num_vectors * vector_ps + int64(ROW_PS), body)


def map_footprint(emitter: Emitter, stage: Stage, output: Var) -> Footprint:
    """Return what ``stage`` touches, its output included."""
    axes = [axis.var for axis in stage.axes]

    def evaluate(recorder: Emitter) -> None:
        store_element(recorder, stage, output, list(axes))

    return footprint(emitter.program, evaluate, emitter.resident)


def store_element(emitter: Emitter, stage: Stage, output: Var, indices: list[Expr]) -> None:
    """Compute an element of ``stage`` and store it."""
    value = emitter.element(stage, indices)
    emitter.store(output, emitter.offset(output, indices), value)
