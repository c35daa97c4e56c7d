"""What is wrong with a model is said in one line, by node and tensor; nothing else escapes."""

from __future__ import annotations

import random
from pathlib import Path

import ml_dtypes
import numpy as np
import onnx
import pytest
from graphs import graph
from mutations import CHANGES
from onnx import TensorProto, helper

from moonpoly import compiler
from moonpoly.compiler.frontend import import_model
from moonpoly.error import ModelError, MoonPolyError, TargetError, UnsupportedError

# A few operators of each kind: products, shapes, windows, reductions, selections.
MODELS = [
    "g (float[n,4] x, float[4,3] w) => (float[n,3] y) { a = MatMul(x, w) y = Relu(a) }",
    """g (float[n,4,h,8] x, float[2,4,3,3] w) => (float[n,2,p,q] y) {
        a = Conv<kernel_shape=[3,3], pads=[1,1,1,1], strides=[2,1]>(x, w)
        y = MaxPool<kernel_shape=[2,2]>(a)
    }""",
    """g (float[a,b,6] x, int64[k] i) => (float[k,m,3] y) {
        p = Transpose<perm=[1,0,2]>(x) s, t = Split<axis=2>(p) y = Gather<axis=0>(s, i)
    }""",
    """g (float[a,b] x, int64[2] to) => (float[p,q] y) {
        m = ReduceMean<axes=[1], keepdims=1>(x) d = Sub(x, m) y = Reshape(d, to)
    }""",
    """g (float[n,8] x, int64[1] k) => (float[n,q] y, int64[n,q] i) {
        s = Softmax<axis=-1>(x) y, i = TopK<axis=1, largest=1>(s, k)
    }""",
    """g (float[n,c] x, int32[n] j) => (double[n,d] y) {
        f = Cast<to=1>(j) g = Flatten<axis=1>(x) h = Concat<axis=1>(g, x) y = Cast<to=11>(h)
    }""",
]


@pytest.mark.parametrize("seed", range(12))
def test_no_change_to_a_model_lets_another_error_escape(seed):
    choose = random.Random(seed)
    refused = 0
    for _ in range(15):
        model = graph(choose.choice(MODELS))
        names = choose.sample(sorted(CHANGES), choose.choice([1, 1, 2]))
        for name in names:
            CHANGES[name](model.graph, choose)
        try:
            import_model(model)
        except MoonPolyError as err:
            assert len(str(err).strip().splitlines()) == 1, names
            refused += 1
    assert refused, "no change did any harm"


@pytest.mark.parametrize(
    ("text", "weights", "message"),
    [
        (
            "g (float[n] x) => (float[n] y) { y = Concat<axis=0>(x, ) }",
            {},
            r"node 'y' \(Concat\) leaves out its operand 'inputs'",
        ),
        (
            "g (float[n,4] x, float[k] i) => (float[k,4] y) { y = Gather(x, i) }",
            {},
            r"Gather \(node 'y', opset 17\): 'i' is float32, which its operand 'indices' can't be",
        ),
        (
            "g (float[n] x) => (float[n] y) { y = Cast<to=99>(x) }",
            {},
            r"Cast \(node 'y', opset 17\): its attribute 'to' is 99, which is no element type",
        ),
        (
            "g (float[n,4] x) => (float[n] y) { y = ReduceSum<keepdims=0>(x, over) }",
            {"over": np.array([2])},
            r"ReduceSum \(node 'y', opset 17\): axis 2 is not one of a tensor of rank 2",
        ),
        (
            "g (float[n,3,h] x, float[4,3,3] w) => (float[n,4,p] y) { y = Conv<pads=[1]>(x, w) }",
            {},
            r"Conv \(node 'y', opset 17\): it has 1 pads, expected 2",
        ),
    ],
    ids=["left_out", "type", "attribute", "axis", "pads"],
)
def test_a_node_that_makes_no_sense_is_refused_by_name(text, weights, message):
    model = graph(text.replace(", )", ", x)"), **weights)
    if ", )" in text:
        model.graph.node[0].input[1] = ""
    with pytest.raises(MoonPolyError, match=message):
        import_model(model)


def test_inputs_and_outputs_that_are_no_tensors_are_all_named():
    value = helper.make_tensor_value_info
    model = graph("g (float[n] x) => (float[n] y) { y = Relu(x) }")
    model.graph.input.append(value("words", TensorProto.STRING, ["k"]))
    sequence = helper.make_sequence_type_proto(helper.make_tensor_type_proto(1, ["n"]))
    model.graph.input.append(helper.make_value_info("list", sequence))
    model.graph.input.append(
        helper.make_value_info("may", helper.make_optional_type_proto(sequence))
    )
    with pytest.raises(UnsupportedError) as caught:
        import_model(model)
    for part in ("'words' is a tensor of string", "'list' is a sequence", "'may' is optional"):
        assert part in str(caught.value)


def test_a_constant_of_half_bytes_is_no_output():
    tensor = onnx.numpy_helper.from_array(np.array([1, 2, 3], ml_dtypes.int4), "y")
    node = helper.make_node("Constant", [], ["y"], value=tensor)
    outputs = [helper.make_tensor_value_info("y", TensorProto.INT4, [3])]
    model = helper.make_model(
        helper.make_graph([node], "g", [], outputs), opset_imports=[helper.make_opsetid("", 21)]
    )
    with pytest.raises(UnsupportedError, match="output 'y' is a tensor of int4"):
        import_model(model)


def test_an_unknown_domain_is_named():
    model = graph("g (float[n] x) => (float[n] y) { y = Relu(x) }")
    model.graph.node[0].domain = "acme"
    with pytest.raises(ModelError, match=r"node 'y' \(acme\.Relu\), which makes 'y', is of domain"):
        import_model(model)
    model.opset_import.append(helper.make_opsetid("acme", 3))
    with pytest.raises(UnsupportedError, match=r"acme\.Relu \(node 'y', acme opset 3\)"):
        import_model(model)


def _external(tmp_path, *, kept: int | None) -> Path:
    """Write a model whose weight is in another file, of which ``kept`` bytes are left."""
    model = graph("g (float[n,4] x) => (float[n,4] y) { y = Add(x, w) }", w=np.ones(4, np.float32))
    model.graph.node[0].name = "shift"
    path = tmp_path / "model.onnx"
    beside = {"save_as_external_data": True, "size_threshold": 0, "location": "weights.bin"}
    onnx.save(model, path, **beside)
    weights = tmp_path / "weights.bin"
    if kept is None:
        weights.unlink()
    else:
        weights.write_bytes(weights.read_bytes()[:kept])
    return path


@pytest.mark.parametrize("kept", [None, 0, 7, 15])
def test_weights_that_are_missing_or_truncated_are_named_with_their_node(tmp_path, kept):
    with pytest.raises(ModelError, match=r"keeps tensor 'w' of node 'shift' \(Add\) in another"):
        import_model(_external(tmp_path, kept=kept))


@pytest.mark.parametrize(
    ("text", "weights", "words"),
    [
        (
            "g (float[n,5] x) => (float[n,3] y) { y = MatMul(x, w) }",
            {"w": np.ones((4, 3), np.float32)},
            ["MatMul (node 'y'", "sizes 5 and 4", "'x' float32 [n, 5]", "'w' float32 [4, 3]"],
        ),
        (
            "g (float[n,3,h] x) => (float[n,4,h,k] y) { y = Conv(x, w) }",
            {"w": np.ones((4, 3, 1, 1), np.float32)},
            ["Conv (node 'y'", "'x' float32 [n, 3, h]", "'w' float32 [4, 3, 1, 1]"],
        ),
        (
            "g (float[n,5,h,k] x) => (float[n,4,h,k] y) { y = Conv(x, w) }",
            {"w": np.ones((4, 3, 1, 1), np.float32)},
            ["Conv (node 'y'", "'x' float32 [n, 5, h, k]", "'w' float32 [4, 3, 1, 1]"],
        ),
        (
            "g (float[n,5] x) => (float[n,4] y) { y = Add(x, w) }",
            {"w": np.ones(4, np.float32)},
            ["Add (node 'y'", "5 and 4", "'x' float32 [n, 5]", "'w' float32 [4]"],
        ),
        (
            "g (float[n,5] x, float[n,4,2] z) => (float[n,9] y) { y = Concat<axis=1>(x, z) }",
            {},
            ["Concat (node 'y'", "'x' float32 [n, 5]", "'z' float32 [n, 4, 2]"],
        ),
        (
            "g (float[n,5] x) => (float[n,5] y) { y = BatchNormalization(x, w, w, w, w) }",
            {"w": np.ones(4, np.float32)},
            ["BatchNormalization (node 'y'", "'x' float32 [n, 5]", "'w' float32 [4]"],
        ),
        (
            "g (float[n,5] x) => (float[n,5] y) { y = Transpose<perm=[1,0,2]>(x) }",
            {},
            ["Transpose (node 'y'", "'x' float32 [n, 5]"],
        ),
        (
            "g (float[n,6] x) => (float[m,4] y) { y = Reshape(x, to) }",
            {"to": np.array([-1, 5, 0, 0])},
            ["Reshape (node 'y'", "'x' float32 [n, 6]"],
        ),
        (
            "g (float[n,6] x) => (float[n,a] p, float[n,b] q) { p, q = Split<axis=1>(x, s) }",
            {"s": np.array([2, 3])},
            ["Split (node 'p'", "'x' float32 [n, 6]"],
        ),
        (
            "g (float[n,6] x) => (float[n,6] y) { y = LayerNormalization(x, w) }",
            {"w": np.ones(4, np.float32)},
            ["LayerNormalization (node 'y'", "'x' float32 [n, 6]", "'w' float32 [4]"],
        ),
    ],
    ids=lambda value: value.split(" = ")[1].split("<")[0].split("(")[0] if "=>" in value else "",
)
def test_an_input_whose_shape_contradicts_the_graph_is_named_with_its_node(text, weights, words):
    with pytest.raises(MoonPolyError) as caught:
        import_model(graph(text, **weights))
    message = str(caught.value)
    assert len(message.splitlines()) == 1
    for word in words:
        assert word in message


@pytest.mark.parametrize("build", [compiler.compile, compiler.describe])
def test_a_model_is_not_compiled_for_a_gpu(build):
    with pytest.raises(TargetError, match=r"processors, not for cuda-sm90a.*moonpoly.matmul"):
        build(graph(MODELS[0]), "cuda-sm90a")


@pytest.mark.parametrize("given", [(TensorProto.INT64, [3]), (TensorProto.FLOAT, [4])])
def test_an_initialiser_that_contradicts_the_input_of_its_name_is_refused(given):
    model = graph("g (float[n,3] x) => (float[n,3] y) { y = Add(x, w) }", w=np.ones(3, np.float32))
    model.graph.input.append(helper.make_tensor_value_info("w", *given))
    with pytest.raises(
        ModelError, match=r"initialiser 'w' of node 'y' \(Add\) is float \[3\], but"
    ):
        import_model(model)


def test_an_output_of_another_type_than_its_node_makes_is_refused():
    model = graph("g (float[n,3] x) => (int64[n,3] y) { y = Relu(x) }")
    with pytest.raises(ModelError, match=r"output .y. is declared as int64, but .* float32"):
        import_model(model)


def test_the_standards_domain_may_be_named_in_full():
    model = graph("g (float[n,3] x) => (float[n,3] y) { y = Relu(x) }")
    model.opset_import[0].domain = model.graph.node[0].domain = "ai.onnx"
    assert [out.dtype for out in import_model(model).outputs] == ["float32"]


_CALL = """< ir_version: 9, opset_import: ["" : 17, "own" : 1] >
g (float[n,3] x) => (float[n,3] y) { y = own.f (x, x) }
< domain: "own", opset_import: ["" : 17] > f (a, b) => (c) { c = Sub(a, b) }"""


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("(x, x)", "(x, x, x)", r"node 'y' \(own\.f\), a call .* has 3 operands, expected 2"),
        ("y = own", "y, z = own", r"node 'y' \(own\.f\), a call .* has 2 results, expected 1"),
        ("{ c =", "{ d =", r"result 'c' of the model's function own\.f is made by none"),
    ],
    ids=["operands", "results", "no_result"],
)
def test_a_call_that_does_not_fit_its_function_is_refused(old, new, message):
    assert old in _CALL
    with pytest.raises(ModelError, match=message):
        import_model(onnx.parser.parse_model(_CALL.replace(old, new)))


_LOOP = """g (float[n] x, int64 k, bool c) => (float[n] y) {
    y = Loop (k, c, x) <body = b (int64 i, bool ci, float[n] v) => (bool co, float[n] w)
        { co = Identity(ci) w = Neg(v) }>
}"""


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("(bool co, float[n] w)", "(bool co)", "3 inputs and 1 outputs, expected 3 and 2"),
        ("(int64 i, bool ci, float[n] v)", "(bool ci, float[n] v)", "2 inputs and 2 outputs"),
    ],
)
def test_a_body_of_other_ends_than_its_node_is_refused(old, new, message):
    assert old in _LOOP
    with pytest.raises(ModelError, match=rf"body of node 'y' \(Loop\) has {message}"):
        import_model(graph(_LOOP.replace(old, new)))


def test_an_axis_out_of_range_is_said_in_few_words():
    with pytest.raises(UnsupportedError, match=r"opset 17\): the input axis 5 is out of range"):
        import_model(graph("g (float[n,3] x) => (float[n,3] y) { y = Softmax<axis=5>(x) }"))
