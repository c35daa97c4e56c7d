"""Find the largest sizes that a model's own tables allow.

A table of positions of length 512, sliced to the sequence length, bounds that length: beyond it
the slice would read past the table. Analysis only: nothing is changed.
"""

from __future__ import annotations

import tvm
from tvm import relax
from tvm.relax import analysis

from moonpoly.compiler.passes.dims import is_static, shape_of

_SLICE = tvm.ir.Op.get("relax.strided_slice")


def find_limits(mod: tvm.IRModule) -> dict[str, int]:
    """Return symbol → largest size, for the symbols that slices of fixed tensors bound.

    Other functions than ``main`` are those of branches and loops, which may never run.
    """
    limits: dict[str, int] = {}
    main = mod["main"]
    inputs = {dim.name for param in main.params for dim in analysis.tir_vars_in_type(param.ty)}
    for block in main.body.blocks:
        for binding in block.bindings:
            value = binding.value if isinstance(binding, relax.VarBinding) else None
            if isinstance(value, tvm.ir.Call) and value.op == _SLICE:
                for symbol, limit in _limits_of(value):
                    if symbol in inputs:
                        limits[symbol] = min(limit, limits.get(symbol, limit))
    return limits


def _limits_of(call: tvm.ir.Call) -> list[tuple[str, int]]:
    shape = shape_of(call.args[0])
    if shape is None or not call.attrs.assume_inbound:
        return []
    axes, _, ends = (list(arg.fields) for arg in call.args[1:4])
    found = []
    for axis, end in zip(axes, ends, strict=True):
        size = shape[int(axis.value)]
        symbols = tvm.tirx.analysis.undefined_vars(end)
        if not is_static(size) or len(symbols) != 1:
            continue
        # Of an end such as `length + 2`, what is left without the symbol has to be a number.
        offset = tvm.sym.Analyzer().simplify(end - symbols[0])
        if is_static(offset):
            found.append((symbols[0].name, int(size) - int(offset)))
    return found
