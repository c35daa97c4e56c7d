"""The passes of the first phase, and the limits: the structure before and after."""

from __future__ import annotations

import numpy as np
import tvm
from modules import dim, module, tensor
from tvm import relax
from tvm.ir import assert_structural_equal

from moonpoly.compiler.passes.bound_gather import BoundGather
from moonpoly.compiler.passes.find_limits import find_limits
from moonpoly.compiler.passes.fold_affine import FoldAffine
from moonpoly.compiler.passes.fold_constant import FoldConstant
from moonpoly.compiler.passes.join_permutes import JoinPermutes

op = relax.op


def _const(values, dtype="float32"):
    return relax.const(np.asarray(values, dtype), dtype)


def test_bound_gather_clips_the_indices():
    def build(mode):
        m = dim("m")
        x, indices = tensor("x", m, 4), tensor("i", 3, dtype="int64")
        return module([x, indices], lambda bb: op.take(x, indices, axis=0, mode=mode))

    assert_structural_equal(BoundGather()(build("fast")), build("clip"))
    assert_structural_equal(BoundGather()(build("clip")), build("clip"))


def test_fold_constant_leaves_one_constant():
    weight = np.arange(6, dtype="float32").reshape(2, 3)

    def before(bb):
        turned = bb.emit(op.permute_dims(_const(weight), [1, 0]))
        scaled = bb.emit(op.multiply(turned, _const(2)))
        return op.add(x, scaled)

    x = tensor("x", dim("m"), 3, 2)
    expected = module([x], lambda bb: op.add(x, _const(2 * weight.T)))
    assert_structural_equal(FoldConstant()(module([x], before)), expected)


def test_fold_constant_leaves_what_depends_on_an_input_or_would_grow():
    big = tvm.tirx.const(1 << 20, "int64")

    def build(bb):
        wide = bb.emit(op.broadcast_to(_const([1.0]), relax.ShapeExpr([big, big])))
        return op.add(bb.emit(op.multiply(x, _const(2))), bb.emit(op.sum(wide)))

    x = tensor("x", dim("m"))
    assert_structural_equal(FoldConstant()(module([x], build)), module([x], build))


def test_join_permutes_makes_one_of_two():
    x = tensor("x", dim("a"), dim("b"), dim("c"))

    def before(bb):
        return op.permute_dims(bb.emit(op.permute_dims(x, [1, 2, 0])), [2, 1, 0])

    expected = module([x], lambda bb: op.permute_dims(x, [0, 2, 1]))
    assert_structural_equal(JoinPermutes()(module([x], before)), expected)


def test_join_permutes_drops_what_moves_nothing():
    x = tensor("x", dim("a"), dim("b"))

    def before(bb):
        there = bb.emit(op.permute_dims(x, [1, 0]))
        return op.nn.relu(bb.emit(op.permute_dims(there, [1, 0])))

    expected = module([x], lambda bb: op.nn.relu(x))
    after = relax.transform.CanonicalizeBindings()(JoinPermutes()(module([x], before)))
    assert_structural_equal(after, expected)


def test_fold_affine_scales_the_weight_and_adds_up_the_shifts():
    weight = np.arange(6, dtype="float32").reshape(2, 3)
    bias, scale, shift = (np.array(v, "float32") for v in ([1, 2, 3], [2, 4, 8], [5, 6, 7]))
    x = tensor("x", dim("m"), 2)

    def before(bb):
        y = bb.emit(op.matmul(x, _const(weight)))
        y = bb.emit(op.add(y, _const(bias)))
        y = bb.emit(op.multiply(y, _const(scale)))
        return op.nn.relu(bb.emit(op.subtract(y, _const(shift))))

    def after(bb):
        y = bb.emit(op.matmul(x, _const(weight * scale)))
        return op.nn.relu(bb.emit(op.add(y, _const((bias * scale - shift)[None]))))

    assert_structural_equal(FoldAffine()(module([x], before)), module([x], after))


def test_fold_affine_scales_the_kernel_of_a_convolution():
    weight = np.arange(2 * 3, dtype="float32").reshape(2, 3, 1, 1)
    scale = np.array([2, 4], "float32").reshape(2, 1, 1)
    x = tensor("x", dim("n"), 3, dim("h"), dim("w"))

    def before(bb):
        return op.divide(bb.emit(op.nn.conv2d(x, _const(weight))), _const(scale))

    after = relax.transform.CanonicalizeBindings()(FoldAffine()(module([x], before)))
    expected = module([x], lambda bb: op.nn.conv2d(x, _const(weight / scale[..., None])))
    assert_structural_equal(after, expected)


def test_fold_affine_leaves_a_product_that_is_read_twice():
    x = tensor("x", dim("m"), 2)

    def build(bb):
        y = bb.emit(op.matmul(x, _const(np.ones((2, 3)))))
        scaled = bb.emit(op.multiply(y, _const([2, 4, 8])))
        return op.add(scaled, y)

    assert_structural_equal(FoldAffine()(module([x], build)), module([x], build))


def test_find_limits_reads_slices_of_tables():
    length = dim("length")
    x = tensor("x", length)
    table = _const(np.zeros((512, 4)))

    def build(begin, end, inbound=True):
        def body(bb):
            ints = [tvm.tirx.const(0, "int64"), begin, end, tvm.tirx.const(1, "int64")]
            axis, first, last, step = ([relax.prim_value(v)] for v in ints)
            return op.strided_slice(table, axis, first, last, step, assume_inbound=inbound)

        return module([x], body)

    zero, two = tvm.tirx.const(0, "int64"), tvm.tirx.const(2, "int64")
    assert find_limits(build(zero, length)) == {"length": 512}
    assert find_limits(build(two, length + two)) == {"length": 510}
    assert find_limits(build(zero, length, inbound=False)) == {}
    assert find_limits(build(zero, length * two)) == {}
