"""The passes that make run-time intrinsics and fuse into them: the structure before and after."""

from __future__ import annotations

import numpy as np
import pytest
import tvm
from modules import dim, intrinsic, module, table, tensor
from tvm import relax
from tvm.ir import assert_structural_equal

from moonpoly.compiler.passes.absorb_transposition import AbsorbTransposition
from moonpoly.compiler.passes.fuse_epilogue import FuseEpilogue
from moonpoly.compiler.passes.report_rest import ReportRest
from moonpoly.compiler.passes.reuse_addend import ReuseAddend
from moonpoly.compiler.passes.rewrite_conv2d import RewriteConv2d
from moonpoly.compiler.sites import Epilogue

op = relax.op
CONV = {"strides": [1, 1], "pads": [0, 0, 0, 0], "dilations": [1, 1], "groups": 1}


def _const(*shape):
    return relax.const(np.ones(shape, "float32"), "float32")


def _main(mod):
    """Return the module without the PrimFuncs that a pass added."""
    return tvm.IRModule({"main": mod["main"]})


def test_conv2d_becomes_the_intrinsic():
    n, h, w = dim("n"), dim("h"), dim("w")
    x, weight = tensor("x", n, 4, h, w), _const(8, 2, 3, 3)
    sites = table()
    before = module(
        [x],
        lambda bb: op.nn.conv2d(x, weight, strides=[1, 1], padding=[1, 1, 1, 1], groups=2),
    )
    # Groups of two channels in are left to generated code.
    assert_structural_equal(RewriteConv2d(sites)(before), before)
    (entry,) = sites.report
    assert entry.status == "scheduled"
    assert "too few" in entry.reason

    weight = _const(8, 4, 3, 3)
    before = module([x], lambda bb: op.nn.conv2d(x, weight, padding=[1, 1, 1, 1], dilation=[1, 1]))
    sites = table()
    after = RewriteConv2d(sites)(before)
    shape = before["main"].ret_ty.shape.values
    assert_structural_equal(
        after, module([x], lambda bb: intrinsic("conv2d", 0, [x, weight], *shape))
    )
    assert sites.sites[0].attributes == {**CONV, "pads": [1, 1, 1, 1]}


def test_conv1d_becomes_one_of_height_1():
    n, length = dim("n"), dim("length")
    x = tensor("x", n, 4, length)
    sites = table()
    before = module([x], lambda bb: op.nn.conv1d(x, _const(8, 4, 3), strides=2, padding=[1, 2]))
    out_shape = before["main"].ret_ty.shape

    def expected(bb):
        tall = bb.emit(op.expand_dims(x, axis=2))
        args = [tall, _const(8, 4, 1, 3)]
        shape = [n, 8, tvm.tirx.const(1, "int64"), out_shape.values[2]]
        return op.reshape(bb.emit(intrinsic("conv2d", 0, args, *shape)), out_shape)

    assert_structural_equal(RewriteConv2d(sites)(before), module([x], expected))
    assert sites.sites[0].attributes == {**CONV, "strides": [1, 2], "pads": [0, 1, 0, 2]}


def _matmul_site():
    sites = table()
    sites.add("matmul", "node", trans_a=False, b="row", n=None)
    return sites


def test_fuse_epilogue_takes_what_follows():
    m, n = dim("m"), dim("n")
    a, b, bias = tensor("a", m, 8), tensor("b", 8, n), tensor("bias", n)

    def before(bb):
        y = bb.emit(intrinsic("matmul", 0, [a, b], m, n))
        return op.nn.relu(bb.emit(op.add(y, bias)))

    sites = _matmul_site()
    after = FuseEpilogue(sites)(module([a, b, bias], before))
    expected = module([a, b, bias], lambda bb: intrinsic("matmul", 0, [a, b, bias], m, n))
    assert_structural_equal(_main(after), expected)
    assert sites.sites[0].epilogue == Epilogue("moonpoly_epilogue_0", ("col",))
    assert isinstance(after["moonpoly_epilogue_0"], tvm.tirx.PrimFunc)


def test_fuse_epilogue_leaves_a_product_that_others_read():
    m = dim("m")
    a, b = tensor("a", m, 8), tensor("b", 8, 4)

    def build(bb):
        y = bb.emit(intrinsic("matmul", 0, [a, b], m, 4))
        return op.matmul(bb.emit(op.nn.relu(y)), bb.emit(op.permute_dims(y)))

    sites = _matmul_site()
    assert_structural_equal(FuseEpilogue(sites)(module([a, b], build)), module([a, b], build))
    assert sites.sites[0].epilogue is None


def _conv_sites(count=3):
    sites = table()
    for _ in range(count):
        sites.add("conv2d", "node", **CONV)
    return sites


def _conv(bb, index, shape, *args):
    return bb.emit(intrinsic("conv2d", index, [args[0], _const(4, 4, 1, 1), *args[1:]], *shape))


@pytest.mark.parametrize("later", ["nothing", "the residual"])
def test_a_residual_that_dies_becomes_the_addend(later):
    n, h = dim("n"), dim("h")
    shape = (n, 4, h, h)
    x, bias = tensor("x", *shape), _const(1, 4, 1, 1)
    read_later = later == "the residual"

    def before(bb):
        first = _conv(bb, 0, shape, x)
        last = _conv(bb, 2, shape, _conv(bb, 1, shape, first))
        total = bb.emit(op.add(bb.emit(op.add(last, bias)), first))
        return op.matmul(bb.emit(op.nn.relu(total)), first if read_later else x)

    def expected(bb):
        first = _conv(bb, 0, shape, x)
        last = _conv(bb, 2, shape, _conv(bb, 1, shape, first), bias, first)
        return op.matmul(last, first if read_later else x)

    sites = _conv_sites()
    after = FuseEpilogue(sites)(module([x], before))
    assert_structural_equal(_main(after), module([x], expected))
    kinds = ("row", "full") if read_later else ("row",)
    assert sites.sites[2].epilogue == Epilogue("moonpoly_epilogue_0", kinds)
    assert sites.sites[2].attributes.get("addend", False) is not read_later


@pytest.mark.parametrize("why", ["it is not added to the product itself", "it is convolved"])
def test_a_residual_is_no_addend_if(why):
    shape = (dim("n"), 4, dim("h"), dim("w"))
    x = tensor("x", *shape)

    def build(bb):
        first = _conv(bb, 0, shape, x)
        if why == "it is convolved":
            return op.add(_conv(bb, 1, shape, first), first)
        last = _conv(bb, 2, shape, _conv(bb, 1, shape, first))
        return op.add(bb.emit(op.nn.relu(last)), first)

    sites = _conv_sites()
    FuseEpilogue(sites)(module([x], build))
    assert [site.epilogue for site in sites.sites if site.epilogue] == [
        Epilogue("moonpoly_epilogue_0", ("full",))
    ]
    assert not any("addend" in site.attributes for site in sites.sites)


def _lowered(body, params):
    """Return a module in the form of the phase in which buffers are allocated."""
    mod = module(params, body)
    for step in (
        relax.transform.ToNonDataflow(),
        relax.transform.RemovePurityChecking(),
        relax.transform.CallTIRRewrite(),
    ):
        mod = step(mod)
    return mod


def _num_buffers(mod):
    return mod.script().count("R.builtin.alloc_tensor")


@pytest.mark.parametrize(
    ("later", "num_buffers"),
    [("nothing", 1), ("the residual", 2), ("a view of it", 2), ("nothing, but it is convolved", 2)],
)
def test_reuse_addend_gives_the_result_the_residuals_buffer(later, num_buffers):
    shape = (dim("n"), 4, dim("h"), dim("w"))
    x = tensor("x", *shape)

    def body(bb):
        first = _conv(bb, 0, shape, x)
        view = bb.emit(op.flatten(first)) if later == "a view of it" else first
        total = _conv(bb, 1, shape, first if "convolved" in later else x, first)
        return total if "nothing" in later else relax.Tuple([total, view])

    sites = _conv_sites()
    sites.sites[1].attributes["addend"] = True
    before = _lowered(body, [x])
    assert _num_buffers(before) == 2
    after = ReuseAddend(sites)(before)
    assert _num_buffers(after) == num_buffers
    if num_buffers == 2:
        assert_structural_equal(after, before)
        return
    buffers = {b.var: b.value for block in after["main"].body.blocks for b in block.bindings}
    calls = [value for value in buffers.values() if isinstance(value, tvm.ir.Call)]
    addend, out = next(call for call in calls if len(call.args) == 5).args[-2:]
    assert buffers.get(addend, addend).same_as(out)


def test_reuse_addend_follows_a_chain():
    shape = (dim("n"), 4, dim("h"), dim("w"))
    x = tensor("x", *shape)

    def body(bb):
        value = _conv(bb, 0, shape, x)
        for _ in range(3):
            value = _conv(bb, 1, shape, x, value)
        return value

    sites = _conv_sites()
    sites.sites[1].attributes["addend"] = True
    before = _lowered(body, [x])
    assert _num_buffers(before) == 4
    assert _num_buffers(ReuseAddend(sites)(before)) == 1


def test_absorb_transposition_writes_the_result_in_place():
    b, m, n = dim("b"), dim("m"), dim("n")
    left, right = tensor("left", b, 2, m, 8), tensor("right", b, 2, 8, n)

    def build(axes):
        def body(bb):
            y = bb.emit(intrinsic("matmul", 0, [left, right], b, 2, m, n))
            return op.permute_dims(y, axes)

        return module([left, right], body)

    sites = _matmul_site()
    after = AbsorbTransposition(sites)(build([0, 2, 1, 3]))
    expected = module([left, right], lambda bb: intrinsic("matmul", 0, [left, right], b, m, 2, n))
    assert_structural_equal(after, expected)
    assert sites.sites[0].attributes["c_axes"] == [0, 2, 1, 3]
    # The innermost dimension can't move.
    sites = _matmul_site()
    after = AbsorbTransposition(sites)(build([0, 1, 3, 2]))
    assert_structural_equal(after, build([0, 1, 3, 2]))
    assert "c_axes" not in sites.sites[0].attributes


def test_report_rest_changes_nothing_and_names_what_is_left():
    m = dim("m")
    x, w = tensor("x", m, 8), tensor("w", 8, 4)

    def body(bb):
        y = bb.emit(intrinsic("matmul", 0, [x, w], m, 4))
        return op.nn.softmax(bb.emit(op.reshape(y, relax.ShapeExpr([m, 2, 2]))))

    sites = _matmul_site()
    before = module([x, w], body)
    assert_structural_equal(ReportRest(sites)(before), before)
    assert [(entry.op, entry.status) for entry in sites.report] == [
        ("matmul", "polymerized"),
        ("softmax", "scheduled"),
    ]
