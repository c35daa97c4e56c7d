"""Vectorisers of words, decision trees and what stands around them, at symbolic sizes."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from node_models import Pair, node_model
from onnx import TensorProto, helper, numpy_helper
from tolerances import ELEMENTWISE_REL

from moonpoly import compiler
from moonpoly.error import MoonPolyError, UnsupportedError

F32, I64 = np.float32, np.int64
LEARNING = "ai.onnx.ml"


def words(mode, skipped, lengths, dtype, shape, **attrs):
    """Count 1-, 2- and 3-grams of the words 0 to 3."""
    model = node_model(
        "TfIdfVectorizer",
        {"x": (dtype, shape)},
        opset=9,
        mode=mode,
        min_gram_length=lengths[0],
        max_gram_length=lengths[1],
        max_skip_count=skipped,
        pool_int64s=[2, 0, 1, 1, 0, 2, 3, 3, 1, 0, 2, 2, 2, 2],
        ngram_counts=[0, 2, 8],
        ngram_indexes=[6, 0, 5, 1, 2, 4, 3],
        **attrs,
    )
    return Pair(model)


WEIGHTS = {"weights": [0.5, 2.0, 3.0, -1.0, 4.0, 0.25, 7.0]}


@pytest.mark.parametrize(
    ("mode", "skipped", "lengths", "dtype", "attrs"),
    [
        ("TF", 0, (1, 3), np.int64, {}),
        ("TF", 5, (2, 2), np.int32, {}),
        ("IDF", 2, (1, 2), np.int64, WEIGHTS),
        ("TFIDF", 1, (1, 3), np.int32, WEIGHTS),
        ("IDF", 0, (1, 1), np.int64, {}),
    ],
)
def test_words_that_follow_each_other_are_counted(rng, mode, skipped, lengths, dtype, attrs):
    rows = words(mode, skipped, lengths, dtype, ["n", "s"], **attrs)
    for n, s in ((1, 1), (3, 17), (2, 2)):
        rows.assert_equal(x=rng.integers(0, 4, (n, s)).astype(dtype))
    row = words(mode, skipped, lengths, dtype, ["s"], **attrs)
    row.assert_equal(x=rng.integers(0, 4, 40).astype(dtype))


def learned(op, inputs, opset=5, **attrs):
    """Return a model of one node of ONNX's domain of classical learning."""
    model = node_model(op, inputs, domain=LEARNING, **attrs)
    model.opset_import.append(helper.make_opsetid(LEARNING, opset))
    return model


def trees(rng, dtype, modes, count=3, features=4, targets=2):
    """Return an ensemble of trees of three nodes and four leaves each."""
    kind = helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
    nodes, leaves = 3 * count, 4 * count
    first, leaf = 3 * np.arange(count)[:, None], 4 * np.arange(count)[:, None]
    true = np.concatenate([first + 1, leaf, leaf + 2], axis=1).ravel()
    false = np.concatenate([first + 2, leaf + 1, leaf + 3], axis=1).ravel()
    return learned(
        "TreeEnsemble",
        {"x": (dtype, ["n", features])},
        output_types=[kind],
        n_targets=targets,
        tree_roots=first.ravel().tolist(),
        nodes_featureids=rng.integers(0, features, nodes).tolist(),
        nodes_modes=numpy_helper.from_array(rng.choice(modes, nodes).astype(np.uint8), "modes"),
        nodes_splits=numpy_helper.from_array(rng.integers(-2, 3, nodes).astype(dtype), "splits"),
        nodes_truenodeids=true.tolist(),
        nodes_falsenodeids=false.tolist(),
        nodes_trueleafs=[0, 1, 1] * count,
        nodes_falseleafs=[0, 1, 1] * count,
        leaf_targetids=rng.integers(0, targets, leaves).tolist(),
        leaf_weights=numpy_helper.from_array(rng.standard_normal(leaves).astype(dtype), "weights"),
    )


@pytest.mark.parametrize(
    ("dtype", "modes"), [(F32, [0]), (F32, range(6)), (np.float64, [0, 3])], ids=str
)
def test_trees_add_up(rng, dtype, modes):
    pair = Pair(trees(rng, dtype, list(modes)), by_reference=True)
    for n in (1, 7, 64):
        x = rng.integers(-3, 4, (n, 4)).astype(dtype)
        pair.assert_close(ELEMENTWISE_REL["float32"], x=x)


def test_a_tree_that_reads_a_missing_feature_is_an_error(rng):
    model = trees(rng, F32, [0])
    model.graph.input[0].type.tensor_type.shape.dim[1].dim_param = "f"
    exe = compiler.compile(model)
    with pytest.raises(MoonPolyError, match=r"reads feature [123] of 1"):
        exe(x=np.zeros((2, 1), F32))


def test_an_average_of_trees_is_refused_by_name(rng):
    model = trees(rng, F32, [0])
    model.graph.node[0].attribute.append(helper.make_attribute("aggregate_function", 0))
    with pytest.raises(UnsupportedError, match=r"TreeEnsemble \(node 'node'.*another aggregate"):
        compiler.compile(model)


def test_entries_are_selected_and_compared(rng):
    pick = Pair(
        learned("ArrayFeatureExtractor", {"x": (F32, ["n", "m"]), "i": (I64, [1, "k"])}, opset=1)
    )
    above = Pair(learned("Binarizer", {"x": (F32, ["n", "m"])}, opset=1, threshold=0.3))
    for n, m, k in ((1, 1, 1), (3, 7, 5)):
        x = rng.standard_normal((n, m)).astype(F32)
        pick.assert_equal(x=x, i=rng.integers(0, m, (1, k)))
        above.assert_equal(x=x)


@pytest.mark.parametrize("directions", [[0, 0], [1, 0]])
def test_each_element_of_a_batch_is_scanned(rng, directions):
    """Before opset 9 a scan has a batch."""
    value = helper.make_tensor_value_info
    inner = [value(name, TensorProto.FLOAT, [3]) for name in ("old", "a", "b")]
    body = helper.make_graph(
        [
            helper.make_node("Mul", ["a", "b"], ["product"]),
            helper.make_node("Add", ["old", "product"], ["new"]),
            helper.make_node("Identity", ["new"], ["each"]),
        ],
        "body",
        inner,
        [value(name, TensorProto.FLOAT, [3]) for name in ("new", "each")],
    )
    node = helper.make_node(
        "Scan",
        ["", "first", "x", "w"],
        ["last", "all"],
        name="node",
        body=body,
        num_scan_inputs=2,
        directions=directions,
    )
    inputs = [value("first", TensorProto.FLOAT, ["n", 3])]
    inputs += [value(name, TensorProto.FLOAT, ["n", "s", 3]) for name in ("x", "w")]
    outputs = [
        value("last", TensorProto.FLOAT, ["n", 3]),
        value("all", TensorProto.FLOAT, ["n", "s", 3]),
    ]
    model = helper.make_model(
        helper.make_graph([node], "g", inputs, outputs),
        opset_imports=[helper.make_opsetid("", 8)],
        ir_version=3,
    )
    pair = Pair(model)
    for n, s in ((1, 1), (3, 7)):
        first, *rest = (n, 3), (n, s, 3), (n, s, 3)
        feeds = [rng.standard_normal(shape).astype(F32) for shape in (first, *rest)]
        pair.assert_close(
            ELEMENTWISE_REL["float32"], **dict(zip(("first", "x", "w"), feeds, strict=True))
        )


def test_chance_and_image_files_are_refused_by_name():
    model = node_model("Bernoulli", {"x": (F32, ["n"])}, opset=15)
    model.graph.node.append(onnx.helper.make_node("RandomUniformLike", ["x"], ["z"], name="z"))
    model.graph.output.append(helper.make_tensor_value_info("z", TensorProto.FLOAT, None))
    with pytest.raises(UnsupportedError) as caught:
        compiler.compile(model)
    for name in ("Bernoulli (node 'node'", "RandomUniformLike (node 'z'", "numbers at random"):
        assert name in str(caught.value)
