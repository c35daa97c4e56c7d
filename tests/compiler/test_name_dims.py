"""Composite sizes get names in loop programs; the structure before and after, and the numbers."""

from __future__ import annotations

import numpy as np
import tvm
from modules import dim, module, tensor
from tvm import relax
from tvm.ir import assert_structural_equal

from moonpoly.compiler.passes.name_dims import NameDims, name_dims

op = relax.op


def _legalised(params, body):
    return relax.transform.LegalizeOps()(module(params, body))


def _programs(mod):
    return [func for _, func in mod.functions_items() if isinstance(func, tvm.tirx.PrimFunc)]


def test_a_composite_size_becomes_a_variable_that_the_tensor_defines():
    h = dim("h")
    composite = (h - 1) // 4 + 1
    x = tensor("x", 2, composite)
    (program,) = _programs(_legalised([x], lambda bb: op.exp(x)))
    named = name_dims(program)
    size = named.params[0].ty.shape[1]
    assert isinstance(size, tvm.tirx.Var) and not size.same_as(h)
    assert h not in set(tvm.tirx.analysis.undefined_vars(named.body))
    # The result's size is the same variable: nothing is lost but the division.
    assert named.params[-1].ty.shape[1].same_as(size)


def test_a_product_of_named_sizes_stays_a_product():
    h, w = dim("h"), dim("w")
    rows, columns = (h - 1) // 4 + 1, (w - 1) // 4 + 1
    x = tensor("x", rows, columns)
    flat = relax.ShapeExpr([rows * columns])
    (program,) = _programs(_legalised([x], lambda bb: op.reshape(x, flat)))
    named = name_dims(program)
    (out,) = named.params[-1].ty.shape
    assert_structural_equal(
        out, named.params[0].ty.shape[0] * named.params[0].ty.shape[1], map_free_vars=True
    )


def test_sums_and_plain_sizes_stay():
    past, new = dim("past"), dim("new")
    x, y = tensor("x", past, 3), tensor("y", new, 3)
    mod = _legalised([x, y], lambda bb: op.concat([x, y], axis=0))
    assert_structural_equal(NameDims()(mod), mod)


def test_programs_that_differ_in_a_size_only_become_one():
    h = dim("h")
    x = tensor("x", (h + 3) // 4)
    y = tensor("y", (h + 7) // 8)
    z = tensor("z", h)

    def body(bb):
        return relax.Tuple([bb.emit(op.exp(x)), bb.emit(op.exp(y)), bb.emit(op.exp(z))])

    mod = _legalised([x, y, z], body)
    assert len(_programs(mod)) == 3
    mod = NameDims()(mod)
    # The last takes no size besides those of its tensors, so it is called in another way.
    assert len(_programs(mod)) == 2
    machine = relax.VirtualMachine(tvm.compile(mod, target="llvm"), tvm.cpu())
    rng = np.random.default_rng()
    values = [rng.standard_normal(size).astype("float32") for size in (3, 2, 9)]
    results = machine["main"](*(tvm.runtime.tensor(value) for value in values))
    for result, value in zip(results, values, strict=True):
        np.testing.assert_allclose(result.numpy(), np.exp(value), rtol=1e-5)
