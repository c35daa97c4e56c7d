"""What a converter may ask of the node it converts, and what it may do."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np
import onnx
import tvm
from tvm import relax

from moonpoly.compiler.frontend.graph.subgraphs import (
    Body,
    Callees,
    add_functions,
    captured_values,
)
from moonpoly.compiler.frontend.model.labels import operator_label
from moonpoly.compiler.frontend.model.standard import STANDARD_DOMAINS
from moonpoly.compiler.frontend.node.attributes import parse_attributes, replace_attributes
from moonpoly.compiler.frontend.node.values import Integer, Outline, Value, is_symbolic
from moonpoly.error import UnsupportedError

if TYPE_CHECKING:
    from moonpoly.compiler.frontend.walk.walk import GraphWalk


class Context:
    """One node while it is converted.

    Parameters
    ----------
    walk
        The walk over the graph that the node is in.
    node
        The node.
    name
        How messages and bindings call it.
    values
        What is known of its operands; None where one is left out.
    """

    def __init__(
        self, walk: GraphWalk, node: onnx.NodeProto, name: str, values: Sequence[Value | None]
    ) -> None:
        self.walk = walk
        self.bb: relax.BlockBuilder = walk.bb
        self.symbols = walk.symbols
        self.node = node
        self.name = name
        self.op: str = node.op_type
        self.domain: str = node.domain
        self.values = list(values)

    @property
    def opset(self) -> int:
        """The version of the operator set that the node's domain has in this model."""
        return self.walk.opset(self.domain)

    @cached_property
    def attrs(self) -> dict[str, Any]:
        """Numbers, strings, lists, NumPy arrays and graphs by name; no defaults filled in."""
        return parse_attributes(self.node)

    def replace_attributes(self, **changes: Any) -> None:
        """Set attributes of the node, for whatever converts it; None takes one away."""
        self.node = replace_attributes(self.node, changes)
        self.attrs = parse_attributes(self.node)

    def element_type(self, name: str, default: int | None = None) -> str:
        """Return the element type that an attribute names, by NumPy's name; refuse one of none."""
        number = self.attrs.get(name, default)
        try:
            return onnx.helper.tensor_dtype_to_np_dtype(number).name
        except (KeyError, TypeError):
            self.unsupported(f"its attribute {name!r} is {number!r}, which is no element type")

    @property
    def num_outputs(self) -> int:
        """How many results the node names, with those of an empty name before the last."""
        return len(self.node.output)

    def wants(self, index: int) -> bool:
        """Return whether result ``index`` is given a name."""
        return index < len(self.node.output) and self.node.output[index] != ""

    @cached_property
    def inputs(self) -> list[relax.Expr | None]:
        """The operands as tensors; None where one is left out. A converter may replace them."""
        return [self.input(index) for index in range(len(self.values))]

    def has_input(self, index: int) -> bool:
        """Return whether operand ``index`` is given."""
        return index < len(self.values) and self.values[index] is not None

    def input(self, index: int) -> relax.Expr | None:
        """Return operand ``index`` as a tensor, or None where it is left out."""
        if "inputs" in self.__dict__:
            return self.inputs[index] if index < len(self.inputs) else None
        value = self.values[index] if index < len(self.values) else None
        return None if value is None else self.walk.tensor(value)

    def constant(self, index: int) -> np.ndarray | None:
        """Return the value of operand ``index`` if it is known at compile time."""
        value = self.values[index] if index < len(self.values) else None
        return None if value is None else value.array

    def integers(self, index: int) -> np.ndarray | None:
        """Return the integers of operand ``index``, known ones and expressions of dimensions.

        None where the operand is left out, depends on data, or is no integer tensor. The array is
        of objects, of the operand's own rank.
        """
        if not self.has_input(index) or not np.issubdtype(np.dtype(self.dtype(index)), np.integer):
            return None
        value = self.values[index]
        assert value is not None
        return value.known_elements()

    def read_integers(self, index: int) -> np.ndarray | None:
        """Return the integers of operand ``index``, where need be symbols for what is in memory.

        Such a symbol may be negative at run time. None where the operand is left out, has more
        than one axis or a size that isn't known, or is no integer tensor.
        """
        known = self.integers(index)
        if known is not None or not self.has_input(index):
            return known
        value, shape, dtype = self.values[index], self.shape(index), self.dtype(index)
        if value is None or shape is None or not np.issubdtype(np.dtype(dtype), np.integer):
            return None
        sizes = [size for size in shape if isinstance(size, int)]
        if len(shape) > 1 or len(sizes) < len(shape) or sizes == [0]:
            return None
        return self.walk.read(value, sizes, f"{self.op.lower()}_operand")

    def shape(self, operand: relax.Expr | int) -> tuple[Integer, ...] | None:
        """Return the sizes of an operand or expression, or None where they depend on data."""
        if isinstance(operand, int):
            value = self.values[operand]
            assert value is not None
            known = value.array if value.array is not None else value.elements
            if known is not None:
                return tuple(known.shape)
            assert value.expr is not None
            operand = value.expr
        ty = operand.ty
        if not isinstance(ty, relax.TensorType) or not isinstance(ty.shape, relax.ShapeExpr):
            return None
        return tuple(
            int(dim) if isinstance(dim, tvm.tirx.IntImm) else dim for dim in ty.shape.values
        )

    def rank(self, operand: relax.Expr | int) -> int | None:
        """Return the rank of an operand or expression, or None where it depends on data."""
        if isinstance(operand, int):
            value = self.values[operand]
            assert value is not None
            known = value.array if value.array is not None else value.elements
            if known is not None:
                return known.ndim
            assert value.expr is not None
            operand = value.expr
        ndim = operand.ty.ndim if isinstance(operand.ty, relax.TensorType) else -1
        return None if ndim < 0 else int(ndim)

    def dtype(self, operand: relax.Expr | int) -> str:
        """Return the element type of an operand or expression, by NumPy's name."""
        if isinstance(operand, int):
            value = self.values[operand]
            assert value is not None
            if value.array is not None:
                return value.array.dtype.name
            if value.elements is not None:
                return value.dtype
            assert value.expr is not None
            operand = value.expr
        return str(operand.ty.dtype) if isinstance(operand.ty, relax.TensorType) else "object"

    def emit(self, expr: relax.Expr) -> relax.Var:
        """Bind ``expr``, normalised, to a variable; labels take it for a part of this node."""
        return self.bb.emit(expr)

    def call_te(self, function: Callable[..., Any], *args: Any, **kwargs: Any) -> relax.Expr:
        """Emit a call of the PrimFunc made of tensor expressions, and return its result."""
        return self.bb.emit(self.bb.call_te(function, *args, **kwargs))

    def new_dim(self, hint: str) -> tvm.tirx.Var:
        """Make a symbolic dimension that :meth:`cast_shape` can define."""
        return self.walk.new_dim(hint)

    def new_symbol(self, hint: str) -> tvm.tirx.Var:
        """Make a symbol for an integer that is found at run time, and may be negative."""
        return self.walk.new_symbol(hint)

    def cast_shape(self, expr: relax.Expr, shape: Sequence[Integer]) -> relax.Expr:
        """Return ``expr`` with sizes that the graph can't tell; they are checked at run time.

        A dimension made by :meth:`new_dim` takes the size that is found.
        """
        dims = [dim if is_symbolic(dim) else tvm.tirx.IntImm("int64", int(dim)) for dim in shape]
        return self.bb.match_cast(expr, relax.TensorType(dims, self.dtype(expr)))

    def require_equal(self, left: Integer, right: Integer) -> None:
        """Say that two dimensions must be equal; checked at run time where it isn't proven."""
        self.walk.require_equal(left, right, self)

    def inline(self, graph: onnx.GraphProto) -> list[Value]:
        """Import a subgraph without inputs in the place of this node; return its results."""
        return self.walk.subgraph(graph, {}, self.name)

    def body(self, graph: onnx.GraphProto, inputs: Sequence[Outline | str]) -> Body | None:
        """Import a subgraph as the body of a function, for :meth:`callees`.

        An input that is given by a name is an integer, and a symbol of that name within.

        Returns None if something in it can't be imported; the node need not report that.
        """
        return self.walk.body(graph, inputs, self.name)

    def callees(self, bodies: Sequence[Body]) -> Callees:
        """Make functions of bodies; they take the same values of this graph as arguments."""
        captured = captured_values(bodies)
        tensors = [self.walk.tensor(value) for value in captured]
        return add_functions(self.bb, bodies, captured, tensors, self.name)

    def unsupported(self, reason: str) -> NoReturn:
        """Refuse the node.

        Raises
        ------
        UnsupportedError
            Always, naming the operator, the node and the opset.
        """
        raise UnsupportedError(f"{self.describe()}: {reason}")

    def describe(self) -> str:
        """Return operator, node and opset, as messages name them."""
        return f"{self.qualified} ({self.place})"

    @property
    def qualified(self) -> str:
        """The operator, after its domain where that is not the standard's."""
        return operator_label(self.op, self.domain)

    @property
    def place(self) -> str:
        """The node's name and opset, as messages name them."""
        domain = "" if self.domain in STANDARD_DOMAINS else f"{self.domain} "
        return f"node {self.name!r}, {domain}opset {self.opset}"

    def operands(self) -> str:
        """Return the names, element types and shapes of the operands, as messages name them."""
        named = []
        for index, name in enumerate(self.node.input):
            if self.has_input(index):
                shape = self.shape(index)
                dims = "of unknown sizes" if shape is None else f"[{', '.join(map(str, shape))}]"
                named.append(f"{name!r} {self.dtype(index)} {dims}")
        return ", ".join(named)
