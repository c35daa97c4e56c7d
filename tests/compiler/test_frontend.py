"""Reading, refusing and naming: what the front end promises before anything is compiled."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from graphs import graph
from onnx import TensorProto, helper, numpy_helper

from moonpoly.compiler.frontend import import_model
from moonpoly.error import ModelError, StorageError, UnsupportedError

ADD = "g (float[n,4] x) => (float[n,4] y) { y = Add(x, w) }"
WEIGHT = {"w": np.arange(4, dtype=np.float32)}


def test_path_bytes_and_proto_are_the_same_model(tmp_path):
    model = graph(ADD, **WEIGHT)
    path = tmp_path / "add.onnx"
    path.write_bytes(model.SerializeToString())
    imported = [import_model(source) for source in (path, str(path), path.read_bytes(), model)]
    assert len({entry.digest for entry in imported}) == 1
    assert imported[0].name == "add"


def test_the_callers_proto_is_left_alone():
    model = graph("g (float[n,4] x) => (float[n,4] y) { y = Relu(x) }")
    model.graph.input[0].type.tensor_type.shape.dim[0].ClearField("dim_param")
    before = model.SerializeToString(deterministic=True)
    import_model(model)
    assert model.SerializeToString(deterministic=True) == before


def test_digest_depends_on_the_weights():
    other = {"w": WEIGHT["w"] + 1}
    assert import_model(graph(ADD, **WEIGHT)).digest != import_model(graph(ADD, **other)).digest


def test_weights_in_other_files_are_read(tmp_path):
    path = tmp_path / "external.onnx"
    onnx.save(
        graph(ADD, w=np.arange(4096, dtype=np.float32).reshape(1024, 4)[:1]),
        path,
        save_as_external_data=True,
        size_threshold=0,
        location="weights.bin",
    )
    assert import_model(path).inputs[0].name == "x"
    (tmp_path / "weights.bin").unlink()
    with pytest.raises(ModelError, match="beside the model"):
        import_model(path)


@pytest.mark.parametrize(
    "content",
    [b"", b"not a model", b"\x00" * 100, b"\x08\x08"],
    ids=["empty", "text", "zeros", "ir"],
)
def test_what_is_not_onnx_is_refused(tmp_path, content):
    path = tmp_path / "bad.onnx"
    path.write_bytes(content)
    with pytest.raises(ModelError, match="is not an ONNX model"):
        import_model(path)


@pytest.mark.parametrize("kept", [0.2, 0.5, 0.9, 0.999])
def test_a_truncated_model_is_refused(tmp_path, kept):
    data = graph(ADD, w=np.ones((64, 4), np.float32)).SerializeToString()
    path = tmp_path / "cut.onnx"
    path.write_bytes(data[: int(len(data) * kept)])
    with pytest.raises(ModelError):
        import_model(path)


def test_a_missing_file_is_a_storage_error(tmp_path):
    with pytest.raises(StorageError, match=r"nowhere\.onnx"):
        import_model(tmp_path / "nowhere.onnx")


@pytest.mark.parametrize(
    ("text", "weights", "message"),
    [
        (
            "g (float[n] x) => (float[n] y) { y = Add(x, lost) }",
            {},
            r"node 'y' \(Add\) reads 'lost', which no node",
        ),
        (
            "g (float[n] x) => (float[n] y) { a = Add(x, b) b = Relu(a) y = Relu(b) }",
            {},
            r"cyclic: node 'a' reads 'b'.*a → b → a",
        ),
        (
            "g (float[n,4] x) => (float[n,4] y) { y = Add(x, w) }",
            {"w": np.arange(4)},
            r"Add \(node 'y', opset 17\).*'x' is float32 and 'w' is int64",
        ),
        (
            "g (float[n,4] x) => (float[n,3] y) { y = MatMul(x, w) }",
            {"w": np.ones((5, 3), np.float32)},
            r"MatMul \(node 'y', opset 17\): sizes 4 and 5 must be equal",
        ),
        (
            "g (float[2,3] x) => (float[2,2] y) { y = Reshape(x, to) }",
            {"to": np.array([2, 2])},
            r"Reshape \(node 'y', opset 17\): sizes 3 and 2 must be equal",
        ),
        ("g (float[n] x) => (float[n] y) { z = Relu(x) }", {}, "output 'y' is made by no node"),
    ],
    ids=["missing", "cyclic", "type", "matmul", "reshape", "output"],
)
def test_a_graph_that_contradicts_itself_is_refused_by_node_and_tensor(text, weights, message):
    with pytest.raises(ModelError, match=message):
        import_model(graph(text, **weights))


def test_nodes_may_stand_in_any_order():
    model = graph("g (float[n] x) => (float[n] y) { y = Relu(a) a = Neg(x) }")
    assert import_model(model).outputs[0].shape == ("n",)


def test_truncated_weights_in_another_file_are_named(tmp_path):
    path = tmp_path / "external.onnx"
    location = {"save_as_external_data": True, "size_threshold": 0, "location": "weights.bin"}
    onnx.save(graph(ADD, **WEIGHT), path, **location)
    (tmp_path / "weights.bin").write_bytes(b"1234567")
    with pytest.raises(ModelError, match="keeps tensor 'w'"):
        import_model(path)


@pytest.mark.parametrize("opset", range(7, onnx.defs.onnx_opset_version() + 1))
def test_every_opset_is_read(opset):
    model = graph(
        "g (float[n,4] x) => (float[n,3] y) { a = MatMul(x, w) y = Relu(a) }",
        w=np.ones((4, 3), np.float32),
    )
    model.opset_import[0].version = opset
    # Version 3 wants every initialiser to be an input as well.
    model.ir_version = max(4, onnx.helper.find_min_ir_version_for(model.opset_import, True))
    assert import_model(model).outputs[0].shape == ("n", 3)


def test_an_opset_that_is_not_known_is_refused():
    model = graph("g (float[n] x) => (float[n] y) { y = Relu(x) }")
    newest = onnx.defs.onnx_opset_version()
    model.opset_import[0].version = newest + 1
    with pytest.raises(UnsupportedError, match=f"of opset {newest + 1}; 7 to {newest} are"):
        import_model(model)


def test_operators_that_opset_7_changed_are_refused_before_it():
    model = graph(
        """g (float[n,4,3] x) => (float[n,4,3] y) {
            a = Add<axis=1, broadcast=1>(x, w) b = Abs(a) y = Dropout<is_test=1>(b)
        }""",
        w=np.ones(4, np.float32),
    )
    model.opset_import[0].version = 6
    with pytest.raises(UnsupportedError) as caught:
        import_model(model)
    assert "2 unsupported operators: Add (node 'a', opset 6): opset 7 changed" in str(caught.value)
    assert "Dropout (node 'y', opset 6)" in str(caught.value)


def test_a_function_of_the_model_is_inlined():
    body = helper.make_node("Add", ["a", "a"], ["b"])
    twice = helper.make_function(
        "own", "Twice", ["a"], ["b"], [body], [helper.make_opsetid("", 17)]
    )
    model = graph("g (float[n] x) => (float[n] y) { y = Relu(x) }")
    model.graph.node[0].CopyFrom(helper.make_node("Twice", ["x"], ["y"], domain="own"))
    model.opset_import.append(helper.make_opsetid("own", 1))
    model.functions.append(twice)
    assert import_model(model).outputs[0].shape == ("n",)


def test_all_unsupported_operators_are_named_at_once():
    nodes = [
        helper.make_node("Frobnicate", ["x"], ["a"], name="first"),
        helper.make_node("Relu", ["a"], ["b"]),
        helper.make_node("Wobble", ["b"], ["y"], name="second", domain="acme"),
    ]
    value = helper.make_tensor_value_info
    model = helper.make_model(
        helper.make_graph(
            nodes,
            "g",
            [value("x", TensorProto.FLOAT, ["n"])],
            [value("y", TensorProto.FLOAT, ["n"])],
        ),
        opset_imports=[helper.make_opsetid("", 17), helper.make_opsetid("acme", 3)],
        ir_version=8,
    )
    # The checker refuses an unknown operator of the standard domain before it is looked up.
    model.graph.node[0].domain = "acme"
    with pytest.raises(UnsupportedError) as caught:
        import_model(model)
    message = str(caught.value)
    assert "2 unsupported operators" in message
    assert "acme.Frobnicate (node 'first', acme opset 3)" in message
    assert "acme.Wobble (node 'second', acme opset 3)" in message


def test_names_of_the_model_are_kept():
    model = graph("g (float[n,4] x) => (float[n,4] y) { y = Relu(x) }")
    model.graph.input[0].name = "input:0"
    model.graph.node[0].input[0] = "input:0"
    model.graph.input[0].type.tensor_type.shape.dim[0].dim_param = "batch size"
    imported = import_model(model)
    (spec,) = imported.inputs
    assert (spec.name, spec.dtype, spec.shape) == ("input:0", "float32", ("batch size", 4))
    assert imported.outputs[0].shape == ("batch size", 4)


def test_unnamed_dimensions_are_not_forced_to_be_equal():
    model = graph("g (float[p,q] x) => (float[p,q] y) { y = Relu(x) }")
    for dim in model.graph.input[0].type.tensor_type.shape.dim:
        dim.ClearField("dim_param")
    (spec,) = import_model(model).inputs
    assert spec.shape == ("x_dim0", "x_dim1")


def test_a_dimension_of_minus_one_is_symbolic():
    model = graph("g (float[p,3] x) => (float[p,3] y) { y = Relu(x) }")
    model.graph.input[0].type.tensor_type.shape.dim[0].dim_value = -1
    (spec,) = import_model(model).inputs
    assert spec.shape == ("x_dim0", 3)


@pytest.mark.parametrize("text", ["?", "-1"])
def test_what_names_no_dimension_makes_none_equal(text):
    model = graph("g (float[p,q] x) => (float[p,q] y) { y = Relu(x) }")
    for dim in model.graph.input[0].type.tensor_type.shape.dim:
        dim.dim_param = text
    (spec,) = import_model(model).inputs
    assert spec.shape == ("x_dim0", "x_dim1")


def test_an_initialiser_that_is_an_input_is_a_constant():
    model = graph(ADD, **WEIGHT)
    model.graph.input.append(helper.make_tensor_value_info("w", TensorProto.FLOAT, [4]))
    assert [spec.name for spec in import_model(model).inputs] == ["x"]


def test_shapes_of_outputs_are_spelled_with_the_models_names():
    model = graph(
        "g (float[n,3,height,width] x) => (float[n,2,p,q] y) { y = Conv<strides=[2,2]>(x, w) }",
        w=np.ones((2, 3, 2, 2), np.float32),
    )
    (spec,) = import_model(model).outputs
    assert spec.shape[:2] == ("n", 2)
    assert "height" in str(spec.shape[2])
    assert "width" in str(spec.shape[3])


def test_bindings_bear_the_names_of_the_nodes():
    model = graph("g (float[n,4] x) => (float[n,4] y) { t = Relu(x) y = Exp(t) }")
    model.graph.node[0].name = "/block/Relu"
    assert "/block/Relu" in {
        binding.var.name for binding in import_model(model).module["main"].body.blocks[0].bindings
    }


def test_a_static_model_has_no_symbols():
    model = graph("g (float[2,4] x) => (float[2,4] y) { y = Relu(x) }")
    imported = import_model(model)
    assert imported.dim_names == {}
    assert imported.inputs[0].shape == (2, 4)


def test_an_input_without_rank_is_refused():
    model = graph("g (float[n] x) => (float[n] y) { y = Relu(x) }")
    model.graph.input[0].type.tensor_type.ClearField("shape")
    with pytest.raises(ModelError, match=r"rank|shape"):
        import_model(model)


def test_weights_of_every_float_form_are_read():
    raw = numpy_helper.from_array(WEIGHT["w"], "w")
    listed = helper.make_tensor("w", TensorProto.FLOAT, [4], WEIGHT["w"])
    digests = set()
    for tensor in (raw, listed):
        model = graph(ADD)
        model.graph.initializer.append(tensor)
        digests.add(import_model(model).name)
    assert digests == {"g"}


def test_an_import_tells_of_every_node():
    model = graph(ADD, **WEIGHT)
    told = []
    import_model(model, on_progress=lambda *step: told.append(step))
    count = len(model.graph.node)
    assert told == [("reading", 0, 1), *(("importing", number, count) for number in range(count))]


def test_an_output_may_be_a_constant_without_elements():
    model = graph("g (float[a,b] x) => (int64[n] y) { y = Shape<start=2, end=1>(x) }")
    (result,) = import_model(model).outputs
    assert result.dtype == "int64"
