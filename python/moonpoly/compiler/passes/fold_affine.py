"""Fold what scales and shifts the channels of a product into its weight.

Requires: constants folded, batch normalisation decomposed. Ensures: no constant scale by channel
follows a matmul or conv2d with a constant weight, and at most one constant shift does. Functional:
returns a new module.

Batch normalisation after a convolution, a layer scale after a linear layer and the like cost
nothing at run time then. The constants are combined in float64. A chain may lead through
transpositions, which stay where they are.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial

import numpy as np
import tvm
from tvm import relax
from tvm.relax.expr_functor import PyExprMutator, mutator

from moonpoly.compiler.passes.dims import dtype_of, same_shape, shape_of
from moonpoly.compiler.passes.fold_constant import constant_array
from moonpoly.compiler.passes.join_permutes import permutation
from moonpoly.compiler.passes.rewriting import rewrite_functions

_AFFINE = ("relax.add", "relax.subtract", "relax.multiply", "relax.divide")


@tvm.transform.module_pass(opt_level=0, name="FoldAffine")
class FoldAffine:
    """Module pass: see the module's description."""

    def transform_module(self, mod: tvm.IRModule, _ctx: tvm.transform.PassContext) -> tvm.IRModule:
        """Fold in every Relax function."""
        rewriter = _Rewriter(mod)
        return rewrite_functions(
            mod, rewriter, prepare=lambda func: rewriter.plan(_find_chains(func))
        )


@dataclass
class _Chain:
    """An anchor and the single uses that follow it, as ``scale · product + shift`` by channel."""

    anchor: relax.VarBinding
    weight: np.ndarray
    # The channel axis of the weight, and of the value at the chain's present end.
    weight_axis: int
    axis: int
    scale: np.ndarray
    shift: np.ndarray
    members: list[relax.VarBinding] = field(default_factory=list)
    # How many members are folded: none without a scale, else up to the last affine operator.
    folded: int = 0


def _find_chains(func: relax.Function) -> list[_Chain]:
    chains = []
    for block in func.body.blocks:
        if not isinstance(block, relax.DataflowBlock):
            continue
        users = relax.analysis.udchain(block)
        by_var = {b.var: b for b in block.bindings if isinstance(b, relax.VarBinding)}
        for binding in by_var.values():
            chain = _start(binding)
            if chain is None:
                continue
            _follow(chain, users, by_var)
            if chain.folded:
                chains.append(chain)
    return chains


def _start(binding: relax.VarBinding) -> _Chain | None:
    call = binding.value
    if not isinstance(call, tvm.ir.Call) or not isinstance(call.op, tvm.ir.Op):
        return None
    shape = shape_of(call)
    weight = constant_array(call.args[1]) if len(call.args) > 1 else None
    if shape is None or weight is None or dtype_of(call) != "float32":
        return None
    if call.op.name == "relax.matmul" and weight.ndim == 2:
        weight_axis, axis = 1, len(shape) - 1
    elif call.op.name == "relax.nn.conv2d" and call.attrs.data_layout == "NCHW":
        weight_axis, axis = 0, 1
    else:
        return None
    channels = weight.shape[weight_axis]
    return _Chain(
        binding, weight, weight_axis, axis, scale=np.ones(channels), shift=np.zeros(channels)
    )


def _follow(
    chain: _Chain,
    users: dict[relax.Var, Sequence[relax.Var]],
    by_var: dict[relax.Var, relax.VarBinding],
) -> None:
    """Take single uses as long as they are affine by channel or transpositions."""
    scale, shift, axis = chain.scale, chain.shift, chain.axis
    current, scaled = chain.anchor.var, False
    while isinstance(current, relax.DataflowVar) and len(users.get(current, ())) == 1:
        following = by_var.get(users[current][0])
        if following is None or not isinstance(following.value, tvm.ir.Call):
            return
        call = following.value
        name = call.op.name if isinstance(call.op, tvm.ir.Op) else ""
        axes = permutation(call)
        if axes is not None:
            axis = axes.index(axis)
        elif name in _AFFINE:
            vector = _channel_vector(call, current, axis, len(scale))
            if vector is None:
                return
            combined = _combine(name, scale, shift, vector, reversed_=call.args[1] is current)
            if combined is None:
                return
            scale, shift = combined
        else:
            return
        if not (np.isfinite(scale).all() and np.isfinite(shift).all()):
            return
        chain.members.append(following)
        current = following.var
        scaled = scaled or name in ("relax.multiply", "relax.divide")
        if scaled and name in _AFFINE:
            chain.scale, chain.shift, chain.axis = scale, shift, axis
            chain.folded = len(chain.members)


def _channel_vector(
    call: tvm.ir.Call, current: relax.Var, axis: int, channels: int
) -> np.ndarray | None:
    """Return the other operand as one float64 value for each channel, or None."""
    left, right = call.args
    other, data = (right, left) if left.same_as(current) else (left, right)
    value = constant_array(other)
    shape, data_shape = shape_of(call), shape_of(data)
    if value is None or shape is None or data_shape is None or not same_shape(shape, data_shape):
        return None
    aligned = value.reshape((1,) * (len(shape) - value.ndim) + value.shape)
    if any(size != 1 for i, size in enumerate(aligned.shape) if i != axis):
        return None
    return np.broadcast_to(aligned.reshape(-1).astype(np.float64), (channels,))


def _combine(
    name: str, scale: np.ndarray, shift: np.ndarray, vector: np.ndarray, *, reversed_: bool
) -> tuple[np.ndarray, np.ndarray] | None:
    """Return scale and shift after one more operator, or None where it isn't affine."""
    if name == "relax.add":
        return scale, shift + vector
    if name == "relax.subtract":
        return (-scale, vector - shift) if reversed_ else (scale, shift - vector)
    if name == "relax.multiply":
        return scale * vector, shift * vector
    if reversed_ or not vector.all():
        return None
    return scale / vector, shift / vector


@mutator
class _Rewriter(PyExprMutator):
    def __init__(self, mod: tvm.IRModule) -> None:
        super().__init__(mod)
        self._absorbed: set[relax.Var] = set()
        self._anchors: dict[relax.Var, _Chain] = {}
        self._last: dict[relax.Var, _Chain] = {}

    def plan(self, chains: Sequence[_Chain]) -> None:
        for chain in chains:
            members = chain.members[: chain.folded]
            self._anchors[chain.anchor.var] = chain
            self._absorbed.update(b.var for b in members[:-1])
            self._last[members[-1].var] = chain

    def visit_var_binding_(self, binding: relax.VarBinding) -> None:
        if binding.var in self._absorbed:
            return
        if binding.var in self._anchors:
            binding = relax.VarBinding(binding.var, _scaled(self._anchors[binding.var]))
        elif binding.var in self._last:
            binding = relax.VarBinding(binding.var, self._shifted(self._last[binding.var]))
        super().visit_var_binding_(binding)

    def _shifted(self, chain: _Chain) -> relax.Expr:
        value: relax.Expr = chain.anchor.var
        steps = []
        if chain.shift.any():
            rank = len(shape_of(value) or ())
            shape = [1] * rank
            start = _start(chain.anchor)
            assert start is not None, "a chain starts at an anchor"
            shape[start.axis] = -1
            shift = chain.shift.astype(np.float32).reshape(shape)
            steps.append(lambda x: relax.op.add(x, relax.const(shift, "float32")))
        for member in chain.members[: chain.folded]:
            axes = permutation(member.value)
            if axes is not None:
                steps.append(partial(relax.op.permute_dims, axes=axes))
        value = self.visit_expr(value)
        for step in steps[:-1]:
            value = self.builder_.emit(step(value))
        return steps[-1](value) if steps else value


def _scaled(chain: _Chain) -> relax.Expr:
    shape = [1] * chain.weight.ndim
    shape[chain.weight_axis] = -1
    weight = (chain.weight * chain.scale.reshape(shape)).astype(np.float32)
    call = chain.anchor.value
    return tvm.ir.Call(call.op, [call.args[0], relax.const(weight, "float32")], call.attrs)
