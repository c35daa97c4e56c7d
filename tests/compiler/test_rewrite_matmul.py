"""The pass alone: what a module looks like before and after."""

from __future__ import annotations

import numpy as np
import pytest
import tvm
from tvm import relax
from tvm.script import ir as I
from tvm.script import relax as R

from moonpoly.compiler.passes.pack_weight import pack_weight
from moonpoly.compiler.passes.rewrite_matmul import RewriteMatmul
from moonpoly.compiler.sites import SiteTable

DIGEST = "00ff" * 16
FIRST_ID = (0x00FF00FF00FF00FF >> 17) << 16


def _rewritten(before):
    table = SiteTable(DIGEST, lanes=16)
    return RewriteMatmul(table)(before), table


def test_dynamic_operands_become_the_intrinsic():
    @I.ir_module
    class Before:
        @R.function
        def main(
            a: R.Tensor(("b", "m", 8), "float32"), w: R.Tensor((8, "n"), "float32")
        ) -> R.Tensor(("b", "m", "n"), "float32"):
            with R.dataflow():
                y = R.matmul(a, w)
                R.output(y)
            return y

    after, table = _rewritten(Before)
    (binding,) = after["main"].body.blocks[0].bindings
    assert binding.value.op.name == "relax.call_dps_packed"
    assert binding.value.args[0].global_symbol == "moonpoly.matmul"
    site_id, a, w = binding.value.args[1].fields
    assert int(site_id.value) == FIRST_ID
    assert [a.name, w.name] == ["a", "w"]
    assert table.sites[0].attributes == {"trans_a": False, "b": "row", "n": None}


def test_structure_before_and_after():
    def build(rewritten):
        m, n = tvm.tirx.Var("m", "int64"), tvm.tirx.Var("n", "int64")
        a = relax.Var("a", relax.TensorType([m, 8], "float32"))
        b = relax.Var("b", relax.TensorType([n, 8], "float32"))
        bb = relax.BlockBuilder()
        with bb.function("main", [a, b]):
            with bb.dataflow():
                if rewritten:
                    call = relax.call_dps_packed(
                        "moonpoly.matmul",
                        [relax.prim_value(FIRST_ID), a, b],
                        out_ty=relax.TensorType([m, n], "float32"),
                    )
                    y = bb.emit_output(call)
                else:
                    t = bb.emit(relax.op.permute_dims(b, [1, 0]))
                    y = bb.emit_output(relax.op.matmul(a, t))
            bb.emit_func_output(y)
        return bb.get()

    after, table = _rewritten(build(rewritten=False))
    tvm.ir.assert_structural_equal(after, build(rewritten=True))
    assert table.sites[0].attributes == {"trans_a": False, "b": "transposed", "n": None}


@pytest.mark.parametrize(
    ("shape", "axes", "expected"),
    [
        (("m", 4, 8), [0, 2, 1], {"trans_a": True}),
        (("m", 4, 2, 8), [0, 2, 1, 3], {"trans_a": False, "a_axes": [0, 2, 1, 3]}),
        (("m", 4, 2, 8), [0, 2, 3, 1], {"trans_a": True, "a_axes": [0, 2, 1, 3]}),
    ],
)
def test_transposition_of_a_is_absorbed(shape, axes, expected):
    dims = [tvm.tirx.Var(d, "int64") if isinstance(d, str) else d for d in shape]
    a = relax.Var("a", relax.TensorType(dims, "float32"))
    bb = relax.BlockBuilder()
    with bb.function("main", [a]):
        with bb.dataflow():
            t = bb.emit(relax.op.permute_dims(a, axes))
            k = t.ty.shape.values[-1]
            w = relax.const(np.ones((int(k), 3), "float32")) if not hasattr(k, "name") else None
            if w is None:
                w = bb.emit(relax.op.ones(relax.ShapeExpr([k, 3]), "float32"))
            y = bb.emit_output(relax.op.matmul(t, w))
        bb.emit_func_output(y)
    after, table = _rewritten(bb.get())
    attributes = table.sites[0].attributes
    assert {key: attributes[key] for key in expected} == expected
    assert "permute_dims" not in after.script()


def test_constant_b_is_packed_at_compile_time():
    weight = np.arange(3 * 20, dtype=np.float32).reshape(3, 20)
    packed = pack_weight(weight, 16)
    assert packed.shape == (2, 3, 16)
    np.testing.assert_array_equal(packed[0], weight[:, :16])
    np.testing.assert_array_equal(packed[1, :, :4], weight[:, 16:])
    assert not packed[1, :, 4:].any()


def test_packing_keeps_batches():
    weight = np.random.default_rng(0).standard_normal((2, 3, 5, 33)).astype(np.float32)
    packed = pack_weight(weight, 8)
    assert packed.shape == (2, 3, 5, 5, 8)
    unpacked = np.moveaxis(packed, -3, -2).reshape(2, 3, 5, 40)
    np.testing.assert_array_equal(unpacked[..., :33], weight)
    assert not unpacked[..., 33:].any()


def test_another_dtype_is_left_and_reported():
    @I.ir_module
    class Before:
        @R.function
        def main(a: R.Tensor(("m", 8), "float64")) -> R.Tensor(("m", "m"), "float64"):
            with R.dataflow():
                t = R.permute_dims(a)
                y = R.matmul(a, t)
                R.output(y)
            return y

    after, table = _rewritten(Before)
    tvm.ir.assert_structural_equal(after, Before)
    assert table.sites == []
    (entry,) = table.report
    assert (entry.op, entry.node, entry.status) == ("matmul", "y", "scheduled")
    assert "float64" in entry.reason


def test_ids_of_sites_run_from_the_digest():
    table = SiteTable(DIGEST, lanes=16)
    ids = [table.add("matmul", "n").id for _ in range(3)]
    assert ids == [FIRST_ID, FIRST_ID + 1, FIRST_ID + 2]
    assert all(0 <= site_id < 2**63 for site_id in ids)
    assert table.find(ids[2]) is table.sites[2]
