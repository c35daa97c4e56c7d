"""What files are made of besides operators: where weights lie, what is left out, what is nested."""

from __future__ import annotations

import numpy as np
import onnxruntime
import pytest
from graphs import Compiled, assert_matches_ort, graph
from onnx import TensorProto, helper, parser
from tolerances import MODEL_REL, model_error

from moonpoly import compiler
from moonpoly.error import InputError

HEADER = '<ir_version: 8, opset_import: ["" : 17, "own" : 1]>\n'


def test_weights_beside_the_file_in_parts_of_other_files(tmp_path, rng, monkeypatch):
    weights = {
        "w": rng.standard_normal((4, 6)).astype(np.float32),
        "b": rng.standard_normal(6).astype(np.float32),
        "k": rng.standard_normal((6, 3)).astype(np.float32),
    }
    model = graph(
        "g (float[n,4] x) => (float[n,3] y) { a = MatMul(x, w) c = Add(a, b) y = MatMul(c, k) }",
        **weights,
    )
    inside = model.SerializeToString()
    # Two tensors in one file, the second at an offset; another file in a folder.
    (tmp_path / "more").mkdir()
    places = {"w": ("weights.bin", 0), "b": ("weights.bin", 4096), "k": ("more/last", 64)}
    for tensor in model.graph.initializer:
        file, offset = places[tensor.name]
        with (tmp_path / file).open("r+b" if (tmp_path / file).exists() else "wb") as stream:
            stream.seek(offset)
            stream.write(tensor.raw_data)
        place = {"location": file, "offset": offset, "length": len(tensor.raw_data)}
        tensor.ClearField("raw_data")
        tensor.data_location = TensorProto.EXTERNAL
        for key, value in place.items():
            tensor.external_data.add(key=key, value=str(value))
    path = tmp_path / "model.onnx"
    path.write_bytes(model.SerializeToString())
    # The file may be named from any folder.
    monkeypatch.chdir(tmp_path.parent)
    run = Compiled(path.relative_to(tmp_path.parent))
    session = onnxruntime.InferenceSession(inside, providers=["CPUExecutionProvider"])
    for n in (1, 5):
        x = rng.standard_normal((n, 4)).astype(np.float32)
        (got,), (want,) = run(x=x), session.run(None, {"x": x})
        assert model_error(got, want) <= MODEL_REL["float32"]


def test_dims_without_names_take_any_sizes(rng):
    model = graph("g (float[p,q] x, float[r,s] z) => (float[p,t] y) { y = Concat<axis=1>(x, z) }")
    for value, texts in zip(model.graph.input, (("", "-1"), ("?", "")), strict=True):
        for dim, text in zip(value.type.tensor_type.shape.dim, texts, strict=True):
            dim.Clear()
            if text == "-1":
                dim.dim_value = -1
            elif text:
                dim.dim_param = text
    for dim in model.graph.output[0].type.tensor_type.shape.dim:
        dim.Clear()
    run = Compiled(model)
    for n, p, q in ((1, 1, 1), (3, 5, 2), (2, 1, 7)):
        x, z = (rng.standard_normal((n, k)).astype(np.float32) for k in (p, q))
        np.testing.assert_array_equal(run(x=x, z=z)[0], np.concatenate([x, z], 1))


def test_operands_and_results_may_be_left_out(rng):
    text = """g (float[n,6] x, float[t,n,4] s, float[n,3,8,8] p, float[1,n,2] first) => (
        float[n,6] clip, float[t,1,n,2] steps, float[1,n,2] last, float[n,3,a,b] big,
        int64[n,k] places, float[n,d] spread, float[n,3,e,f] pool, float[n,6] kept, float[n,c] cut
    ) {
        clip = Clip(x, , high)
        steps = GRU<hidden_size=2, linear_before_reset=1>(s, gates, again, , , first)
        , last = GRU<hidden_size=2>(s, gates, again)
        big = Resize<mode="nearest">(p, , scales)
        unread, places = TopK<axis=1>(x, k)
        normal, , spread = LayerNormalization(x, gain)
        pool, unused = MaxPool<kernel_shape=[2,2]>(p)
        kept = Dropout(x)
        cut = Slice(x, begin, end, , steps2)
    }"""
    weights = {
        "high": np.float32(0.5),
        "gates": rng.standard_normal((1, 6, 4)).astype(np.float32),
        "again": rng.standard_normal((1, 6, 2)).astype(np.float32),
        "scales": np.array([1, 1, 2, 1.5], np.float32),
        "k": np.array([2]),
        "gain": rng.standard_normal(6).astype(np.float32),
        "begin": np.array([0, 1]),
        "end": np.array([99, 6]),
        "steps2": np.array([1, 2]),
    }
    # The parser knows no name for what is left out.
    model = graph(text.replace(" , ", " LEFT_OUT, ").replace("(, ", "(LEFT_OUT, "), **weights)
    for node in model.graph.node:
        for names in (node.input, node.output):
            for index, name in enumerate(names):
                if name == "LEFT_OUT":
                    names[index] = ""
    assert_matches_ort(model, Compiled(model), rng, [{"n": 1, "t": 1}, {"n": 5, "t": 3}])


_FUNCTIONS = """
main (float[n,m] x, float[n,m] z, bool c) => (float[n,m] y) {
    t = own.blend<slope=0.25, axis=1>(x, z)
    y = If(c) <
        then_branch = yes () => (float[n,m] a) { a = own.blend<slope=0.5>(t, x) },
        else_branch = no () => (float[n,m] b) { o = Neg(t) b = own.leak(o) }
    >
}
<domain: "own", opset_import: ["" : 17]>
leak <slope: float = 0.1> (a) => (b) { b = LeakyRelu<alpha: float = @slope>(a) }
<domain: "own", opset_import: ["" : 17, "own" : 1]>
blend <slope, axis: int = 0> (a, c) => (d) {
    t = own.leak<slope: float = @slope>(a)
    one = Constant<value_int: int = 1>()
    shape = Shape(t)
    rows = Gather(shape, one)
    few = Less(rows, one)
    u = If(few) <
        then_branch = yes () => (float[p,q] e) { e = Sub(t, c) },
        else_branch = no () => (float[p,q] f) { f = Add(t, c) }
    >
    d = Softmax<axis: int = @axis>(u)
}
"""


def test_functions_call_functions_with_their_attributes_and_see_their_operands(rng):
    model = parser.parse_model(HEADER + _FUNCTIONS)
    run = Compiled(model)
    session = onnxruntime.InferenceSession(
        model.SerializeToString(), providers=["CPUExecutionProvider"]
    )
    for n, m in ((1, 1), (3, 5)):
        x, z = (rng.standard_normal((n, m)).astype(np.float32) for _ in range(2))
        for c in (True, False):
            feeds = {"x": x, "z": z, "c": np.array(c)}
            (got,), (want,) = run(**feeds), session.run(None, feeds)
            assert model_error(got, want) <= MODEL_REL["float32"]


def test_an_initialiser_that_is_an_input_is_a_constant_or_may_be_given(rng):
    weights = {"w": rng.standard_normal((4, 3)).astype(np.float32), "b": np.float32(0.5)}
    model = graph(
        "g (float[n,4] x) => (float[n,3] y) { a = MatMul(x, w) y = Add(a, b) }", **weights
    )
    for name, value in weights.items():
        info = helper.make_tensor_value_info(name, TensorProto.FLOAT, value.shape)
        model.graph.input.append(info)
    session = onnxruntime.InferenceSession(
        model.SerializeToString(), providers=["CPUExecutionProvider"]
    )
    x = rng.standard_normal((5, 4)).astype(np.float32)
    other = rng.standard_normal((4, 3)).astype(np.float32)
    fixed, opened = compiler.compile(model), compiler.compile(model, open_inputs=["w"])
    assert (fixed.optional, opened.optional) == ((), ("w",))
    for run, feeds in ((fixed, {"x": x}), (opened, {"x": x}), (opened, {"x": x, "w": other})):
        (want,) = session.run(None, feeds)
        assert model_error(run(**feeds)["y"], want) <= MODEL_REL["float32"]
    # A value that is given once is not kept.
    assert model_error(opened(x=x)["y"], fixed(x=x)["y"]) <= MODEL_REL["float32"]
    with pytest.raises(InputError, match=r"'w' is a constant of the compiled model.*--open w"):
        fixed(x=x, w=other)
    with pytest.raises(InputError, match="'w' must have 4 along axis 0"):
        opened(x=x, w=other.T)
    with pytest.raises(InputError, match=r"no initialiser 'k' is listed.*'w', 'b'"):
        compiler.compile(model, open_inputs=["k"])


@pytest.mark.parametrize("indices", [[1, 6], [[0, 1], [3, 0]]], ids=["linear", "by_axis"])
def test_sparse_weights_are_filled_with_zeros(indices, rng):
    model = graph("g (float[n,4] x) => (float[n,2] y) { y = MatMul(x, w) }")
    values = helper.make_tensor("w", TensorProto.FLOAT, [2], [1.5, -2.0])
    places = helper.make_tensor("", TensorProto.INT64, np.shape(indices), np.ravel(indices))
    model.graph.sparse_initializer.append(helper.make_sparse_tensor(values, places, [4, 2]))
    assert_matches_ort(model, Compiled(model), rng, [{"n": 1}, {"n": 5}])
