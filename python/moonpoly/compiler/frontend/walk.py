"""The walk over an ONNX graph, one node at a time, that builds the Relax function."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping, Sequence

import numpy as np
import onnx
import tvm
from tvm import relax

from moonpoly.compiler.frontend.context import Context
from moonpoly.compiler.frontend.converters import find_converter
from moonpoly.compiler.frontend.fallback import convert_with_tvm, known_operators, shape_operand
from moonpoly.compiler.frontend.fold import fold_node
from moonpoly.compiler.frontend.labels import RESULT_SUFFIX, node_label
from moonpoly.compiler.frontend.symbolic import Symbols, evaluate_node
from moonpoly.compiler.frontend.values import Integer, Value, lay_down
from moonpoly.error import ModelError, MoonPolyError, UnsupportedError

# Operators whose subgraphs can't be in a dataflow block.
_CONTROL_FLOW = frozenset({"If", "Loop", "Scan"})
# What Relax and converters raise when they meet a form of an operator that they don't know.
_CONVERTER_ERRORS = (
    ArithmeticError,
    AssertionError,
    AttributeError,
    LookupError,
    RuntimeError,
    TypeError,
    ValueError,
)


class Block:
    """A binding block under construction, and later the block."""

    def __init__(self) -> None:
        self._made: relax.BindingBlock | None = None

    def get(self) -> relax.BindingBlock:
        """Return the block once it is complete."""
        assert self._made is not None, "the block is still open"
        return self._made

    def set(self, made: relax.BindingBlock) -> None:
        """Complete the block."""
        self._made = made


class GraphWalk:
    """Builds a Relax function from the nodes of a graph and of its subgraphs.

    Parameters
    ----------
    opsets
        Domain → version; the standard domain is "".
    """

    def __init__(self, opsets: Mapping[str, int]) -> None:
        self.bb = relax.BlockBuilder()
        self.symbols = Symbols()
        self._opsets = opsets
        self._scopes: list[dict[str, Value]] = [{}]
        # Elements that were laid down in memory, for each open block: none is seen outside it.
        self._laid_down: list[dict[Value, relax.Expr]] = [{}]
        self._failures: list[str] = []
        self._last_label = ""

    def opset(self, domain: str) -> int:
        """Return the version of ``domain`` in this model."""
        return self._opsets.get("" if domain == "ai.onnx" else domain, 0)

    def run(self, graph: onnx.GraphProto, params: Sequence[relax.Var]) -> tvm.IRModule:
        """Import the main graph into a module with one function ``main``.

        Raises
        ------
        UnsupportedError
            Naming every node that can't be converted.
        ModelError
            If a node reads what nothing has written.
        """
        self._define_initializers(graph)
        for param in params:
            for dim in tvm.relax.analysis.tir_vars_in_type(param.ty):
                self.symbols.declare(dim)
            self._scopes[-1][param.name] = Value(expr=param)
        has_blocks = any(node.op_type in _CONTROL_FLOW for node in graph.node)
        error: MoonPolyError | None = None
        with self.bb.function("main", params=list(params)):
            with contextlib.nullcontext() if has_blocks else self.bb.dataflow():
                try:
                    output = self._body(graph)
                except MoonPolyError as err:
                    # The builder wants its blocks closed before it is thrown away.
                    error, output = err, relax.Tuple([])
                if not has_blocks:
                    output = self.bb.emit_output(output, self._last_label + RESULT_SUFFIX)
            self.bb.emit_func_output(output)
        module = self.bb.get()
        if error is not None:
            raise error
        module["main"] = module["main"].with_attrs({"num_input": len(params)})
        return relax.transform.ConvertToDataflow()(module) if has_blocks else module

    def _body(self, graph: onnx.GraphProto) -> relax.Expr:
        self._nodes(graph, "")
        if self._failures:
            several = f"{len(self._failures)} operators" if len(self._failures) > 1 else "operator"
            raise UnsupportedError(f"can't import {several} {'; '.join(self._failures)}")
        results = [self.tensor(self._lookup(out.name, "output")) for out in graph.output]
        return results[0] if len(results) == 1 else relax.Tuple(results)

    def subgraph(
        self, graph: onnx.GraphProto, bindings: Mapping[str, Value], label: str
    ) -> list[Value]:
        """Import a node's subgraph in place; it sees the values of the graphs around it."""
        self._scopes.append(dict(bindings))
        try:
            self._define_initializers(graph)
            self._nodes(graph, f"{label}/")
            return [self._lookup(out.name, label) for out in graph.output]
        finally:
            self._scopes.pop()

    @contextlib.contextmanager
    def block(self) -> Iterator[Block]:
        """Open a binding block of its own, for the body of a branch."""
        block = Block()
        self.bb._begin_binding_block()
        self._laid_down.append({})
        try:
            yield block
        finally:
            self._laid_down.pop()
            block.set(self.bb._end_block())

    def tensor(self, value: Value) -> relax.Expr:
        """Return a value as a tensor in Relax."""
        if value.expr is not None:
            return value.expr
        if value.array is not None:
            value.expr = relax.const(value.array)
            return value.expr
        for laid_down in self._laid_down:
            if value in laid_down:
                return laid_down[value]
        assert value.elements is not None, "a lost value is not asked for"
        tensor = lay_down(self.bb, value.elements, value.dtype)
        self._laid_down[-1][value] = tensor
        return tensor

    def new_dim(self, hint: str) -> tvm.tirx.Var:
        """Make a symbolic dimension."""
        dim = tvm.tirx.Var(hint, "int64")
        self.symbols.declare(dim)
        return dim

    def require_equal(self, left: Integer, right: Integer, ctx: Context) -> None:
        """Check two dimensions that must be equal, as far as they are known."""
        if isinstance(left, int) and isinstance(right, int) and left != right:
            raise ModelError(f"{ctx.describe()}: {left} and {right} must be equal")

    def _define_initializers(self, graph: onnx.GraphProto) -> None:
        for tensor in graph.initializer:
            self._scopes[-1][tensor.name] = Value(array=onnx.numpy_helper.to_array(tensor))

    def _lookup(self, name: str, label: str) -> Value:
        for scope in reversed(self._scopes):
            if name in scope:
                return scope[name]
        raise ModelError(f"{label!r} reads {name!r}, which no node, input or initialiser makes")

    def _nodes(self, graph: onnx.GraphProto, prefix: str) -> None:
        for node in graph.node:
            self._node(node, prefix + node_label(node))

    def _node(self, node: onnx.NodeProto, label: str) -> None:
        operands = [self._lookup(name, label) if name else None for name in node.input]
        self._last_label = label
        if any(value is not None and value.is_lost for value in operands):
            results = [Value() for _ in node.output]
        else:
            ctx = Context(self, node, label, operands)
            try:
                results = self._convert(ctx)
            except UnsupportedError as err:
                self._failures.append(str(err))
                results = [Value() for _ in node.output]
            except _CONVERTER_ERRORS as err:
                self._failures.append(f"{ctx.describe()}: {_reason(err)}")
                results = [Value() for _ in node.output]
        self._scopes[-1].update(zip(node.output, results, strict=False))

    def _convert(self, ctx: Context) -> list[Value]:
        node = ctx.node
        arrays = [None if value is None else value.array for value in ctx.values]
        if all(
            value is None or array is not None
            for value, array in zip(ctx.values, arrays, strict=True)
        ):
            folded = fold_node(node, arrays, self._opsets)
            if folded is not None:
                return [Value(array=np.asarray(array)) for array in folded]
        evaluated = evaluate_node(ctx)
        if evaluated is not None:
            return evaluated
        converter = find_converter(node.domain, node.op_type)
        converted = converter(ctx) if converter else None
        if converted is None:
            if node.op_type not in known_operators():
                ctx.unsupported("this form of the operator can't be imported")
            converted = convert_with_tvm(self.bb, node, ctx.name, ctx.opset, self._for_tvm(ctx))
        results = [converted] if isinstance(converted, tvm.ir.Expr) else list(converted)
        named = [name for name in node.output if name]
        if len(results) < len(node.output) and any(node.output[len(results) :]):
            ctx.unsupported(f"{len(named)} results are named, {len(results)} can be made")
        return [Value() if result is None else self._bind(ctx, result) for result in results]

    def _for_tvm(self, ctx: Context) -> list[relax.Expr | None]:
        if "inputs" in ctx.__dict__:
            return ctx.inputs
        operands: list[relax.Expr | None] = []
        for index, value in enumerate(ctx.values):
            shape = None if value is None else shape_operand(ctx.node, index, value)
            operands.append(ctx.input(index) if shape is None else shape)
        return operands

    def _bind(self, ctx: Context, result: relax.Expr) -> Value:
        """Bind a call to a variable of the node's name; take integers out of a shape."""
        result = self.bb.normalize(result)
        if isinstance(result, relax.ShapeExpr):
            dims = np.empty(len(result.values), dtype=object)
            dims[:] = [self.symbols.simplify(dim) for dim in result.values]
            return Value.of_elements(dims, "int64")
        if tvm.ir.is_prim_expr(result):
            return Value.of_elements(self.symbols.simplify(result), str(result.ty.dtype))
        is_call = isinstance(result, tvm.ir.Call) and isinstance(result.ty, relax.TensorType)
        return Value(expr=self.bb.emit(result, name_hint=ctx.name) if is_call else result)


def _reason(err: Exception) -> str:
    assert not isinstance(err, MoonPolyError)
    lines = [line.strip() for line in str(err).splitlines() if line.strip()]
    return lines[0] if lines else type(err).__name__
