"""The walk over an ONNX graph, one node at a time, that builds the Relax function."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
import onnx
import tvm
from tvm import relax

from moonpoly.compiler.frontend.dimensions.equalities import Broadcasts, Equalities
from moonpoly.compiler.frontend.graph.context import Context
from moonpoly.compiler.frontend.graph.scopes import Scopes
from moonpoly.compiler.frontend.graph.subgraphs import Body, Frame, renew_variables
from moonpoly.compiler.frontend.graph.unify import begin_with_checks, check_equal
from moonpoly.compiler.frontend.model.labels import RESULT_SUFFIX, node_label
from moonpoly.compiler.frontend.model.standard import plain_domain
from moonpoly.compiler.frontend.node.failures import UNKNOWN_FORM_ERRORS, reason_of
from moonpoly.compiler.frontend.node.operand_types import check_result, wrong_type
from moonpoly.compiler.frontend.node.values import Integer, Outline, Value, is_symbolic
from moonpoly.compiler.frontend.symbolic import Symbols, lay_down, read_integers
from moonpoly.compiler.frontend.walk.convert import convert_node
from moonpoly.compiler.frontend.walk.stand_ins import StandIns
from moonpoly.compiler.frontend.walk.support import is_known, is_outdated, unsupported
from moonpoly.compiler.progress import OnProgress, silent
from moonpoly.error import ModelError, MoonPolyError, Refusal, UnsupportedError


class GraphWalk:
    """Builds a Relax function from the nodes of a graph and of its subgraphs.

    Parameters
    ----------
    opsets
        Domain → version; the standard domain is "".
    equalities
        What is known of equal dimensions; the walk adds what it learns.
    unknown
        Nodes whose operators have no importer.
    stand_ins
        What is known of the results of nodes that can't be imported.
    on_progress
        Told of each node of the main graph.
    """

    def __init__(
        self,
        opsets: Mapping[str, int],
        equalities: Equalities,
        unknown: Sequence[Refusal],
        stand_ins: StandIns,
        on_progress: OnProgress = silent,
    ) -> None:
        self.bb = relax.BlockBuilder()
        self.symbols = Symbols()
        self._equalities = equalities
        self._opsets = opsets
        self._unknown = unknown
        self._stand_ins = stand_ins
        self._on_progress = on_progress
        self._scopes = Scopes(self._new_frame(0))
        self._failures: list[Refusal] = []
        self._last_label = ""

    def _new_frame(self, base: int) -> Frame:
        return Frame(base, Broadcasts(self._equalities, self.symbols))

    @property
    def broadcasts(self) -> Broadcasts:
        """The dimensions that were found by broadcasting in the function under construction."""
        return self._scopes.frame.broadcasts

    def opset(self, domain: str) -> int:
        """Return the version of ``domain`` in this model."""
        return self._opsets.get(plain_domain(domain), 0)

    def run(self, graph: onnx.GraphProto) -> tvm.IRModule:
        """Import the main graph into a module with one function ``main``.

        Raises
        ------
        UnsupportedError
            Naming every node that can't be converted.
        ModelError
            If a node reads what nothing has written.
        """
        self._define_initializers(graph)
        params = self._equalities.params()
        for param in params:
            for dim in tvm.relax.analysis.tir_vars_in_type(param.ty):
                self.symbols.declare(dim, self._equalities.bound(dim), is_input=True)
            self._scopes.define({param.name: Value(expr=param)})
        error: MoonPolyError | None = None
        with self.bb.function("main", params=list(params)):
            with self.bb.dataflow():
                try:
                    output = self._output(graph)
                except MoonPolyError as err:
                    # The builder wants its blocks closed before it is thrown away.
                    error, output = err, relax.Tuple([])
                output = self.bb.emit_output(output, self._last_label + RESULT_SUFFIX)
            self.bb.emit_func_output(output)
        if error is not None:
            raise error
        module = renew_variables(self.bb.get())
        checks = self._equalities.checks(self.symbols.positive)
        if checks:
            module["main"] = begin_with_checks(module["main"], checks)
        module["main"] = module["main"].with_attrs({"num_input": len(params)})
        return module

    def _output(self, graph: onnx.GraphProto) -> relax.Expr:
        for number, node in enumerate(graph.node):
            self._on_progress("importing", number, len(graph.node))
            self._node(node, node_label(node))
        if self._unknown or self._failures:
            raise unsupported([*self._unknown, *self._failures])
        results = [self._result(out.name) for out in graph.output]
        for out, result in zip(graph.output, results, strict=True):
            check_result(out, result.ty.dtype)
        return results[0] if len(results) == 1 else relax.Tuple(results)

    def _result(self, name: str) -> relax.Expr:
        value = self._lookup(name, "output")
        if value.array is not None and not _fills_bytes(value.array):
            raise UnsupportedError(
                f"output {name!r} is a tensor of {value.array.dtype.name}; types of whole bytes "
                f"are supported at a model's ends"
            )
        return self.tensor(value)

    def subgraph(
        self, graph: onnx.GraphProto, bindings: Mapping[str, Value], label: str
    ) -> list[Value]:
        """Import a node's subgraph in place; it sees the values of the graphs around it."""
        with self._scopes.graph():
            self._scopes.define(bindings)
            return self._walk(graph, label)

    def _walk(self, graph: onnx.GraphProto, label: str) -> list[Value]:
        self._define_initializers(graph)
        for node in graph.node:
            self._node(node, f"{label}/{node_label(node)}")
        return [self._lookup(out.name, label) for out in graph.output]

    def body(
        self, graph: onnx.GraphProto, inputs: Sequence[Outline | str], label: str
    ) -> Body | None:
        """Import a node's subgraph as the body of a function of ``inputs``.

        An input that is given by a name is an integer, which is a symbol of that name within.
        Returns None if something in it can't be imported, which is remembered.
        """
        frame = self._new_frame(self._scopes.depth)
        params, result = [], None
        with self._scopes.function(frame):
            self.bb._begin_dataflow_block()
            try:
                for info, each in zip(graph.input, inputs, strict=True):
                    param, value = self._parameter(info, each)
                    params.append(param)
                    self._scopes.define({info.name: value})
                results = self._walk(graph, label)
                if not any(value.is_lost for value in results):
                    result = self.bb.emit_output(relax.Tuple([self.tensor(v) for v in results]))
            finally:
                block = self.bb._end_block()
        return None if result is None else Body(params, block, result, results, frame)

    def _parameter(
        self, info: onnx.ValueInfoProto, outline: Outline | str
    ) -> tuple[relax.Var, Value]:
        """Make a function's parameter, and say what it is to the subgraph's input."""
        # Some exporters write one element where the standard has a scalar.
        rank = len(info.type.tensor_type.shape.dim)
        if isinstance(outline, str):
            symbol = self.new_dim(outline)
            elements = np.full([1] * min(rank, 1), symbol, dtype=object)
            param = relax.Var(info.name, relax.ShapeType([symbol]))
            return param, Value.of_elements(elements, "int64")
        if outline.is_sequence:
            param = relax.Var(info.name, outline.type)
            return param, Value(expr=param, item=outline)
        if outline.dims is not None:
            dims = [self.new_dim(f"{info.name}_dim") if d is None else d for d in outline.dims]
            outline = replace(outline, dims=tuple(dims))
        param = relax.Var(info.name, outline.type)
        if outline.dims == () and rank == 1:
            return param, Value(expr=self.bb.emit(relax.op.reshape(param, (1,))))
        return param, Value(expr=param)

    @property
    def num_failures(self) -> int:
        """How many nodes could not be imported so far."""
        return len(self._failures)

    def forget_failures(self, count: int) -> None:
        """Forget all but the first ``count`` failures: what they are of is imported again."""
        del self._failures[count:]

    def tensor(self, value: Value) -> relax.Expr:
        """Return a value as a tensor in Relax."""
        if value.expr is not None:
            return value.expr
        if value.array is not None:
            if not _fills_bytes(value.array):
                raise UnsupportedError(f"a tensor of {value.array.dtype.name} can't be laid down")
            if value.array.size == 0:
                # A model's file can't hold a constant without elements.
                return self.bb.normalize(relax.op.zeros(value.array.shape, value.array.dtype.name))
            value.expr = relax.const(np.asarray(value.array), value.array.dtype.name)
            return value.expr
        assert value.elements is not None, "a lost value is not asked for"
        laid_down = self._scopes.frame.laid_down
        if value not in laid_down:
            laid_down[value] = lay_down(self.bb, value.elements, value.dtype)
        return laid_down[value]

    def read(self, value: Value, shape: Sequence[int], hint: str) -> np.ndarray:
        """Return symbols that have the values of an integer tensor of ``shape`` at run time."""
        read = self._scopes.frame.read
        if value not in read:
            symbols = [self.new_symbol(hint) for _ in range(math.prod(shape))]
            read_integers(self.bb, self.tensor(value), symbols)
            read[value] = np.array(symbols, dtype=object).reshape(tuple(shape))
        return read[value]

    def new_dim(self, hint: str) -> tvm.tirx.Var:
        """Make a symbolic dimension."""
        dim = self.new_symbol(hint)
        self.symbols.declare(dim)
        return dim

    def new_symbol(self, hint: str) -> tvm.tirx.Var:
        """Make a symbol of which nothing is known."""
        symbol = tvm.tirx.Var(hint, "int64")
        self._scopes.frame.dims.add(symbol)
        return symbol

    def require_equal(self, left: Integer, right: Integer, ctx: Context) -> None:
        """Check two dimensions that must be equal, as far as they are known."""
        if self.symbols.equal(left, right):
            return
        if not is_symbolic(left) and not is_symbolic(right):
            reason = f"sizes {left} and {right} must be equal"
            raise ModelError(f"{ctx.describe()}: {reason}; its operands are {ctx.operands()}")
        # What a branch or loop needs is needed only where it runs.
        is_general = self._scopes.is_main and all(map(self._equalities.is_input, (left, right)))
        if is_general:
            self._equalities.learn(left, right, ctx.name)
        elif not self.broadcasts.learn(left, right):
            label = f"node {ctx.name!r} needs {left} and {right} to be equal"
            check_equal(self.bb, left, right, label)

    def _define_initializers(self, graph: onnx.GraphProto) -> None:
        for tensor in graph.initializer:
            value = Value(array=onnx.numpy_helper.to_array(tensor))
            self._scopes.define({tensor.name: value})

    def _lookup(self, name: str, label: str) -> Value:
        value = self._scopes.find(name)
        if value is None:
            raise ModelError(f"{label!r} reads {name!r}, which no node, input or initialiser makes")
        return value

    def _node(self, node: onnx.NodeProto, label: str) -> None:
        operands = [self._lookup(name, label) if name else None for name in node.input]
        self._last_label = label
        if any(value is not None and value.is_lost for value in operands):
            results = [Value() for _ in node.output]
        else:
            ctx = Context(self, node, label, operands)
            results = self._convert(ctx) or self._stand_ins.make(self, node)
        self._scopes.define(dict(zip(node.output, results, strict=False)))

    def _convert(self, ctx: Context) -> list[Value] | None:
        """Return a node's results, or None where it can't be imported, which is remembered."""
        if self._unknown and (not is_known(ctx.node) or is_outdated(ctx.node, ctx.opset)):
            return None
        try:
            return convert_node(ctx, self._opsets)
        except UnsupportedError as err:
            reason = str(err).removeprefix(f"{ctx.describe()}: ")
        except UNKNOWN_FORM_ERRORS as err:
            reason = wrong_type(ctx) or f"{reason_of(err)}; its operands are {ctx.operands()}"
        self._failures.append(Refusal(ctx.qualified, ctx.name, ctx.place, reason))
        return None


def _fills_bytes(array: np.ndarray) -> bool:
    """Return whether elements take the whole bytes that NumPy keeps them in, and are numbers."""
    name = array.dtype.name
    return name not in ("object", "float4_e2m1fn") and not name.endswith(("int2", "int4"))
