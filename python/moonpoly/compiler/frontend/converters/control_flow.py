"""If, Loop and Scan.

Their subgraphs become functions, and the operators calls of ``src/ops/control_flow.cc`` which calls
these back. So a model with branches and loops is still one dataflow block.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx
import tvm
from tvm import relax

from moonpoly.compiler.frontend.converters.registry import Converted, converts
from moonpoly.compiler.frontend.graph.context import Context
from moonpoly.compiler.frontend.graph.outlines import bring_out, join, outline_of
from moonpoly.compiler.frontend.graph.subgraphs import Body
from moonpoly.compiler.frontend.node.values import Integer, Outline, Value

_NO_LIMIT = np.iinfo(np.int64).max


def _call(
    ctx: Context, function: str, args: Sequence[Any], outlines: Sequence[Outline]
) -> list[Value]:
    """Emit the call of a C++ operator with results as outlined."""
    ty = relax.TupleType([outline.type for outline in outlines])
    exprs = [arg if isinstance(arg, tvm.ir.Expr) else relax.prim_value(arg) for arg in args]
    result = ctx.emit(relax.op.call_pure_packed(function, *exprs, ty_args=ty))
    return [
        bring_out(ctx, ctx.emit(relax.TupleGetItem(result, index)), outline)
        for index, outline in enumerate(outlines)
    ]


def _require_one_element(ctx: Context, operand: int, name: str) -> None:
    """Refuse a condition or count of more or fewer elements: at run time if only then known."""
    for size in ctx.shape(operand) or ():
        if isinstance(size, int) and size != 1:
            ctx.unsupported(f"{name} must be one element; its operands are {ctx.operands()}")
        ctx.require_equal(size, 1)


def _lost(ctx: Context) -> list[None]:
    # What is in the subgraph has been reported.
    return [None] * ctx.num_outputs


@converts("If")
def if_(ctx: Context) -> Converted:
    """Import the branch that is known to be taken, or both as functions of which one is called."""
    _require_one_element(ctx, 0, "the condition")
    known = ctx.constant(0)
    if known is not None:
        return ctx.inline(ctx.attrs["then_branch" if known.item() else "else_branch"])
    bodies = [ctx.body(ctx.attrs[name], []) for name in ("then_branch", "else_branch")]
    if any(body is None for body in bodies):
        return _lost(ctx)
    then_body, else_body = bodies
    assert then_body is not None and else_body is not None
    size = _size_for_rank(ctx, then_body, else_body)
    if size is not None:
        ctx.require_equal(*size)
        return ctx.inline(ctx.attrs["then_branch"])
    outlines = [
        join(ctx, outline_of(ctx, yes, then_body.frame), outline_of(ctx, no, else_body.frame))
        for yes, no in zip(then_body.results, else_body.results, strict=True)
    ]
    callees = ctx.callees([then_body, else_body])
    args = [ctx.input(0), *callees.functions, *callees.arguments]
    return _call(ctx, "moonpoly.op.if", args, outlines)


def _size_for_rank(
    ctx: Context, then_body: Body, else_body: Body
) -> tuple[Integer, Integer] | None:
    """Return the two sizes that must be equal for the results to have a rank.

    An exporter that doesn't know whether a dimension is 1 writes "squeeze it if it is" as a branch.
    What follows is made for the squeezed tensor, and would fail with another.
    """
    ranks = [
        [ctx.rank(ctx.walk.tensor(value)) for value in body.results if value.item is None]
        for body in (then_body, else_body)
    ]
    condition = ctx.values[0].elements if ctx.values[0] is not None else None
    if ranks[0] == ranks[1] or condition is None:
        return None
    relation = condition.reshape(-1)[0]
    return (relation.a, relation.b) if isinstance(relation, tvm.tirx.EQ) else None


@dataclass
class _Iteration:
    """The body of a loop, with types of its states that hold in every iteration.

    Parameters
    ----------
    body
        The function of an iteration.
    states
        What is known of the states between iterations.
    scans
        What is known of an element of each scan output.
    """

    body: Body
    states: list[Outline]
    scans: list[Outline]


def _iterate(
    ctx: Context,
    graph: onnx.GraphProto,
    leading: Sequence[Outline | str],
    initial: Sequence[Value],
    trailing: Sequence[Outline],
    num_leading_results: int,
) -> _Iteration | None:
    """Import the body of a loop.

    The states are assumed to keep the shapes that they start with. Where the body changes one, the
    assumption is dropped and the body imported again.
    """
    states = [outline_of(ctx, value) for value in initial]
    while True:
        mark = ctx.walk.num_failures
        body = ctx.body(graph, [*leading, *states, *trailing])
        if body is None:
            return None
        results = [outline_of(ctx, value, body.frame) for value in body.results]
        first = num_leading_results
        joined = [
            join(ctx, state, result)
            for state, result in zip(states, results[first : first + len(states)], strict=True)
        ]
        if all(_equal(ctx, old, new) for old, new in zip(states, joined, strict=True)):
            return _Iteration(body, states, results[first + len(states) :])
        states = joined
        ctx.walk.forget_failures(mark)


def _equal(ctx: Context, left: Outline, right: Outline) -> bool:
    if left.dtype != right.dtype or (left.dims is None) != (right.dims is None):
        return False
    if left.dims is None or right.dims is None:
        return True
    return len(left.dims) == len(right.dims) and all(
        (a is None) == (b is None) for a, b in zip(left.dims, right.dims, strict=True)
    )


def _stacked(count: Integer | None, scan: Outline) -> Outline:
    return Outline(scan.dtype, None if scan.dims is None else (count, *scan.dims))


@converts("Loop")
def loop(ctx: Context) -> Converted:
    """States may change shape between iterations; scan outputs are stacked."""
    for operand, name in enumerate(("the number of trips", "the condition")):
        if ctx.has_input(operand):
            _require_one_element(ctx, operand, name)
    initial = [value for value in ctx.values[2:] if value is not None]
    graph = ctx.attrs["body"]
    leading: list[Outline | str] = ["iteration", Outline("bool", ())]
    iteration = _iterate(ctx, graph, leading, initial, [], 1)
    if iteration is None:
        return _lost(ctx)
    callees = ctx.callees([iteration.body])
    trips = ctx.input(0) if ctx.has_input(0) else relax.const(_NO_LIMIT, "int64")
    go_on = ctx.input(1) if ctx.has_input(1) else relax.const(True, "bool")
    args: list[Any] = [*callees.functions, trips, go_on, len(initial), len(iteration.scans)]
    for scan in iteration.scans:
        args += [_empty(scan), _dtype_imm(scan.dtype)]
    args += [*(ctx.walk.tensor(value) for value in initial), *callees.arguments]
    count = _trip_count(ctx, iteration.body)
    outlines = iteration.states + [_stacked(count, scan) for scan in iteration.scans]
    return _call(ctx, "moonpoly.op.loop", args, outlines)


def _dtype_imm(dtype: str) -> relax.Expr:
    return tvm.ir.GenericConst(tvm.DataType(dtype), relax.AnyType())


def _empty(scan: Outline) -> relax.ShapeExpr:
    """Return the sizes after the first that a scan output has where nothing is stacked.

    The standard leaves them open. Those that every iteration would give are the ones that what
    follows is compiled for; ONNX Runtime takes those that the body states, and 0 for symbols.
    """
    return relax.ShapeExpr([0 if dim is None else dim for dim in scan.dims or ()])


def _trip_count(ctx: Context, body: Body) -> Integer | None:
    """Return the number of iterations if no condition can end them early and it is known."""
    if not ctx.has_input(0):
        return None
    condition = body.results[0]
    never_ends = (condition.array is not None and bool(condition.array.all())) or (
        condition.expr is not None and condition.expr.same_as(body.params[1])
    )
    known = ctx.constant(1)
    begins = not ctx.has_input(1) or (known is not None and bool(known.all()))
    trips = ctx.read_integers(0)
    if trips is None or not begins or not never_ends:
        return None
    return ctx.symbols.maximum(trips.reshape(-1)[0], 0)


# Of this domain are the scans that stand for each batch element of one before opset 9.
_OF_BATCH_ELEMENT = "moonpoly.batch_element"


@converts("Scan")
def scan(ctx: Context) -> Converted:
    """Iterate over the elements of the scan inputs along an axis of each."""
    if ctx.opset < 9:
        return _scan_batch(ctx)
    return _scan(ctx)


def _scan_batch(ctx: Context) -> Converted:
    """Scan each element of a batch, as before opset 9: a scan over the batch of such scans."""
    if ctx.has_input(0):
        ctx.unsupported("sequence_lens, which Scan has before opset 9 only; convert the model")
    del ctx.values[0]
    del ctx.node.input[0]
    names = [f"{ctx.name}_element_{index}" for index in range(len(ctx.values))]
    results = [f"{name}_of_element" for name in ctx.node.output]
    inner = onnx.helper.make_node(
        "Scan",
        names,
        results,
        name="each",
        domain=_OF_BATCH_ELEMENT,
        body=ctx.attrs["body"],
        num_scan_inputs=ctx.attrs["num_scan_inputs"],
        scan_input_directions=ctx.attrs.get("directions", [0] * ctx.attrs["num_scan_inputs"]),
    )
    graph = onnx.helper.make_graph(
        [inner],
        "element",
        [onnx.ValueInfoProto(name=name) for name in names],
        [onnx.ValueInfoProto(name=name) for name in results],
    )
    ctx.replace_attributes(body=graph, num_scan_inputs=len(names), directions=None)
    return _scan(ctx)


@converts("Scan", domain=_OF_BATCH_ELEMENT)
def _scan(ctx: Context) -> Converted:
    graph, attrs = ctx.attrs["body"], ctx.attrs
    num_inputs = attrs["num_scan_inputs"]
    num_states = len(ctx.values) - num_inputs
    initial = [value for value in ctx.values[:num_states] if value is not None]
    axes = attrs.get("scan_input_axes", [0] * num_inputs)
    inputs = [
        _axis_first(ctx, ctx.input(num_states + index), axis) for index, axis in enumerate(axes)
    ]
    shapes = [ctx.shape(tensor) for tensor in inputs]
    if any(shape is None for shape in shapes):
        ctx.unsupported("the shapes of the scan inputs must be known")
    elements = [
        Outline(ctx.dtype(tensor), shape[1:])
        for tensor, shape in zip(inputs, shapes, strict=True)
        if shape is not None
    ]
    iteration = _iterate(ctx, graph, [], initial, elements, 0)
    if iteration is None:
        return _lost(ctx)
    num_outputs = len(iteration.scans)
    callees = ctx.callees([iteration.body])
    args: list[Any] = [*callees.functions, num_states, num_inputs, num_outputs]
    args += attrs.get("scan_input_directions", [0] * num_inputs)
    backwards = attrs.get("scan_output_directions", [0] * num_outputs)
    for output, direction in zip(iteration.scans, backwards, strict=True):
        args += [_empty(output), _dtype_imm(output.dtype), direction]
    args += [*(ctx.walk.tensor(value) for value in initial), *inputs, *callees.arguments]
    count = shapes[0][0] if shapes[0] is not None else None
    outlines = iteration.states + [_stacked(count, output) for output in iteration.scans]
    results: list[Any] = list(_call(ctx, "moonpoly.op.scan", args, outlines))
    for index, axis in enumerate(attrs.get("scan_output_axes", [0] * num_outputs)):
        if axis != 0:
            place = num_states + index
            results[place] = _first_axis_to(ctx, results[place].expr, axis)
    return results


def _axis_first(ctx: Context, tensor: relax.Expr | None, axis: int) -> relax.Expr:
    assert tensor is not None, "the checker wants every scan input"
    rank = ctx.rank(tensor)
    if rank is None:
        ctx.unsupported("the rank of the scan inputs must be known")
    axis %= rank
    order = [axis, *(d for d in range(rank) if d != axis)]
    return ctx.emit(relax.op.permute_dims(tensor, order)) if axis != 0 else tensor


def _first_axis_to(ctx: Context, tensor: relax.Expr, axis: int) -> relax.Expr:
    rank = ctx.rank(tensor)
    if rank is None:
        ctx.unsupported("the rank of the scan outputs must be known")
    order = list(range(1, rank))
    order.insert(axis % rank, 0)
    return relax.op.permute_dims(tensor, order)
