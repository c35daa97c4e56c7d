"""LSTM, GRU and RNN.

The product of all steps' inputs with their weights is one matrix product; what each step repeats is
a C++ operator (``src/ops``).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Any

import numpy as np
import tvm
from tvm import relax

from moonpoly.compiler.frontend.converters.registry import converts
from moonpoly.compiler.frontend.graph.context import Context
from moonpoly.compiler.frontend.node.values import Integer

_DIRECTIONS = {"forward": 0, "reverse": 1, "bidirectional": 2}
# Activation → defaults of alpha and beta; None where it has no such parameter.
_ACTIVATIONS: dict[str, tuple[float | None, float | None]] = {
    "sigmoid": (None, None),
    "tanh": (None, None),
    "relu": (None, None),
    "affine": (1.0, 0.0),
    "leakyrelu": (0.01, None),
    "thresholdedrelu": (1.0, None),
    "scaledtanh": (1.0, 1.0),
    "hardsigmoid": (0.2, 0.5),
    "elu": (1.0, None),
    "softsign": (None, None),
    "softplus": (None, None),
}
_HALF = ("float16", "bfloat16")
# Stands in a call for an operand that is left out, or a site that is not yet known.
ABSENT = 0


@dataclass
class Layer:
    """The sizes and the shared operands of one recurrent layer."""

    ctx: Context
    dtype: str
    steps: Integer
    batch: Integer
    directions: int
    hidden: int
    batch_first: bool

    @property
    def y_shape(self) -> list[Integer]:
        if self.batch_first:
            return [self.batch, self.steps, self.directions, self.hidden]
        return [self.steps, self.directions, self.batch, self.hidden]

    @property
    def state_shape(self) -> list[Integer]:
        if self.batch_first:
            return [self.batch, self.directions, self.hidden]
        return [self.directions, self.batch, self.hidden]

    def operand(self, index: int) -> relax.Expr | None:
        """Return operand ``index`` in float32."""
        tensor = self.ctx.input(index)
        return None if tensor is None else self._float32(tensor)

    def _float32(self, tensor: relax.Expr) -> relax.Expr:
        if self.ctx.dtype(tensor) not in _HALF:
            return tensor
        return self.ctx.emit(relax.op.astype(tensor, "float32"))

    def optional(self, index: int) -> relax.Expr:
        """Return operand ``index``, or what stands for one that is left out."""
        tensor = self.operand(index)
        return relax.prim_value(ABSENT) if tensor is None else tensor

    def parts(self, index: int, widths: Sequence[int]) -> list[relax.Expr]:
        """Cut a weight, known or not, along its second axis into parts of the given widths."""
        ends = np.cumsum(widths)
        known = self.ctx.constant(index)
        if known is not None:
            cut = np.split(known.astype("float32"), ends[:-1], axis=1)
            return [relax.const(np.ascontiguousarray(part), "float32") for part in cut]
        tensor = self.operand(index)
        if len(widths) == 1:
            return [tensor]
        cut = self.ctx.emit(relax.op.split(tensor, [int(end) for end in ends[:-1]], axis=1))
        return [self.ctx.emit(relax.TupleGetItem(cut, i)) for i in range(len(widths))]

    def project(self, gates: int, bias: relax.Expr | None) -> relax.Expr:
        """Multiply the inputs of all steps by the weights of all directions: one product."""
        ctx = self.ctx
        width = self.directions * gates * self.hidden
        known = ctx.constant(1)
        if known is not None:
            columns = known.astype("float32").reshape(width, -1).T
            weight: relax.Expr = relax.const(np.ascontiguousarray(columns), "float32")
        else:
            rows = ctx.emit(relax.op.reshape(self.operand(1), (width, -1)))
            weight = ctx.emit(relax.op.permute_dims(rows))
        product = ctx.emit(relax.op.matmul(self.operand(0), weight))
        if bias is None:
            return product
        flat = ctx.emit(relax.op.reshape(bias, (width,)))
        return ctx.emit(relax.op.add(product, flat))

    def call(self, name: str, inputs: Sequence[Any], states: int) -> list[relax.Expr]:
        """Emit the operator and return Y and its last ``states`` states, in the node's dtype."""
        ctx = self.ctx
        outputs = [
            relax.TensorType(_dims(shape), "float32")
            for shape in [self.y_shape] + [self.state_shape] * states
        ]
        args = [item if isinstance(item, relax.Expr) else scalar(item) for item in inputs]
        result = ctx.emit(relax.call_dps_packed(name, args, out_ty=outputs))
        fields = [ctx.emit(relax.TupleGetItem(result, i)) for i in range(1 + states)]
        if self.dtype in _HALF:
            fields = [relax.op.astype(field, self.dtype) for field in fields]
        return fields[: ctx.num_outputs]

    def shared(self, projected: relax.Expr, weight: relax.Expr, names: list[str]) -> list[Any]:
        """Return the arguments that the three operators begin with."""
        attrs = self.ctx.attrs
        return [
            ABSENT,
            projected,
            weight,
            self.optional(5),
            self.optional(4),
            _DIRECTIONS[attrs.get("direction", "forward")],
            int(self.batch_first),
            float(attrs.get("clip", 0.0)),
            _activations(self.ctx, names * self.directions),
        ]


def _dims(shape: Sequence[Integer]) -> list[Any]:
    return [relax.prim_value(dim) if isinstance(dim, int) else dim for dim in shape]


def scalar(value: float | str) -> relax.Expr:
    return tvm.ir.StringImm(value) if isinstance(value, str) else relax.prim_value(value)


def _layer(ctx: Context, gates: int) -> Layer:
    x_shape, w_shape, r_shape = (ctx.shape(index) for index in range(3))
    if x_shape is None or w_shape is None or r_shape is None:
        ctx.unsupported("the shapes of X, W and R must be known")
    dtype = ctx.dtype(0)
    if dtype != "float32" and dtype not in _HALF:
        ctx.unsupported(f"no recurrent layers in {dtype}, only in float32, float16 and bfloat16")
    direction = ctx.attrs.get("direction", "forward")
    if direction not in _DIRECTIONS:
        ctx.unsupported(f"direction {direction!r} is none of {', '.join(_DIRECTIONS)}")
    directions = 2 if direction == "bidirectional" else 1
    hidden = r_shape[2]
    if not isinstance(hidden, int) or not isinstance(w_shape[2], int):
        ctx.unsupported("the sizes of W and R must be numbers")
    if tuple(r_shape) != (directions, gates * hidden, hidden):
        ctx.unsupported(
            f"R must have shape {(directions, gates * hidden, hidden)}, got {tuple(r_shape)}"
        )
    batch_first = bool(ctx.attrs.get("layout", 0))
    outer, inner = x_shape[:2]
    steps, batch = (inner, outer) if batch_first else (outer, inner)
    return Layer(ctx, dtype, steps, batch, directions, hidden, batch_first)


def _activations(ctx: Context, defaults: Sequence[str]) -> str:
    """Write the activations with their parameters as the C++ operators read them."""
    names = [name.lower() for name in ctx.attrs.get("activations", defaults)]
    if len(names) != len(defaults):
        ctx.unsupported(f"{len(defaults)} activations are needed, got {len(names)}")
    alphas = iter(ctx.attrs.get("activation_alpha", ()))
    betas = iter(ctx.attrs.get("activation_beta", ()))
    words = []
    for name in names:
        if name not in _ACTIVATIONS:
            ctx.unsupported(f"unknown activation {name!r}")
        alpha, beta = _ACTIVATIONS[name]
        # A parameter is taken from the list only by an activation that has it.
        given = [
            0.0 if default is None else next(values, default)
            for default, values in ((alpha, alphas), (beta, betas))
        ]
        words.append(f"{name} {given[0]!r} {given[1]!r}")
    return " ".join(words)


def _sum(ctx: Context, tensors: Sequence[relax.Expr]) -> relax.Expr:
    return reduce(lambda left, right: ctx.emit(relax.op.add(left, right)), tensors)


@converts("LSTM")
def lstm(ctx: Context) -> Sequence[relax.Expr]:
    """Y, Y_h, Y_c; peepholes and coupled gates included."""
    layer = _layer(ctx, 4)
    width = 4 * layer.hidden
    bias = _sum(ctx, layer.parts(3, [width, width])) if ctx.has_input(3) else None
    shared = layer.shared(
        layer.project(4, bias), layer.parts(2, [width])[0], ["sigmoid", "tanh", "tanh"]
    )
    rest = [layer.optional(6), layer.optional(7), int(ctx.attrs.get("input_forget", 0))]
    return layer.call("moonpoly.op.lstm", shared + rest, states=2)


@converts("GRU")
def gru(ctx: Context) -> Sequence[relax.Expr]:
    """Y and Y_h; the reset gate before or after the candidate's product."""
    layer = _layer(ctx, 3)
    hidden = layer.hidden
    reset_after = bool(ctx.attrs.get("linear_before_reset", 0))
    bias = hidden_bias = None
    if ctx.has_input(3):
        w_bias, rest_bias, hidden_bias = layer.parts(3, [3 * hidden, 2 * hidden, hidden])
        # The state's part of the candidate's bias is reset too, if its product is.
        inner = relax.const(np.zeros((layer.directions, hidden), "float32"))
        r_bias = [rest_bias, inner if reset_after else hidden_bias]
        bias = _sum(ctx, [w_bias, ctx.emit(relax.op.concat(r_bias, axis=1))])
    if reset_after:
        weight, candidate = layer.parts(2, [3 * hidden])[0], relax.prim_value(ABSENT)
    else:
        weight, candidate = layer.parts(2, [2 * hidden, hidden])
    shared = layer.shared(layer.project(3, bias), weight, ["sigmoid", "tanh"])
    has_bias = reset_after and hidden_bias is not None
    rest = [ABSENT, candidate, hidden_bias if has_bias else ABSENT]
    return layer.call("moonpoly.op.gru", shared + rest, states=1)


@converts("RNN")
def rnn(ctx: Context) -> Sequence[relax.Expr]:
    """Y and Y_h."""
    layer = _layer(ctx, 1)
    bias = _sum(ctx, layer.parts(3, [layer.hidden] * 2)) if ctx.has_input(3) else None
    shared = layer.shared(layer.project(1, bias), layer.parts(2, [layer.hidden])[0], ["tanh"])
    return layer.call("moonpoly.op.rnn", shared, states=1)
