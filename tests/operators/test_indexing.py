"""Operators that read, write or sum up by indices, at symbolic sizes, against ONNX Runtime."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from node_models import Pair, node_model
from onnx import helper
from tolerances import MODEL_REL

from moonpoly import compiler
from moonpoly.compiler.frontend import import_model
from moonpoly.error import MoonPolyError

BOUND = MODEL_REL["float32"]
F32, I64 = np.float32, np.int64


def floats(rng, *shape):
    return rng.standard_normal(shape).astype(F32)


@pytest.mark.parametrize("reduction", ["none", "add", "max"])
def test_rows_are_scattered(rng, reduction):
    inputs = {"x": (F32, ["a", "b", 3]), "i": (I64, ["k", 2]), "u": (F32, ["k", 3])}
    pair = Pair(node_model("ScatterND", inputs, opset=18, reduction=reduction))
    for a, b, k in ((1, 1, 1), (4, 5, 7), (2, 3, 0)):
        cells = rng.permutation(a * b)[:k]
        places = np.stack([cells // b, cells % b - b], axis=-1).reshape(-1, 2)
        pair.assert_close(BOUND, x=floats(rng, a, b, 3), i=places, u=floats(rng, len(places), 3))


@pytest.mark.parametrize("reduction", ["none", "mul"])
def test_elements_are_scattered(rng, reduction):
    inputs = {"x": (F32, ["a", "b"]), "i": (I64, ["a", "k"]), "u": (F32, ["a", "k"])}
    pair = Pair(node_model("ScatterElements", inputs, opset=18, axis=1, reduction=reduction))
    for a, b, k in ((1, 1, 1), (3, 7, 4)):
        places = np.stack([rng.permutation(b)[:k] for _ in range(a)]) - b // 2
        pair.assert_close(BOUND, x=floats(rng, a, b), i=places, u=floats(rng, a, k))


@pytest.mark.parametrize(("op", "shape"), [("ScatterND", [1, 1]), ("ScatterElements", [1])])
def test_an_index_beyond_the_axis_is_never_written_through(op, shape):
    inputs = {"x": (F32, ["n"]), "i": (I64, shape), "u": (F32, [1])}
    exe = Pair(node_model(op, inputs, opset=18)).executable
    for index in (4, -5, 2**40):
        with pytest.raises(MoonPolyError, match=f"node 'node' is given index {index}"):
            exe(x=np.zeros(4, F32), i=np.full(shape, index), u=np.ones(1, F32))


@pytest.mark.parametrize(
    ("op", "shape"), [("Gather", []), ("GatherElements", [1, 1]), ("GatherND", [1, 2])]
)
def test_an_index_beyond_the_axis_is_never_read_through(op, shape):
    """Neither one that is given, nor a constant one: an axis may be long enough or not."""
    given = node_model(op, {"x": (F32, ["n", "n"]), "i": (I64, shape)}, opset=18)
    fixed = node_model(op, {"x": (F32, ["n", "n"])}, constants={"i": np.full(shape, -3)}, opset=18)
    given, fixed = Pair(given), Pair(fixed)
    for n in (3, 4):
        x = np.arange(n * n, dtype=F32).reshape(n, n)
        given.assert_equal(x=x, i=np.full(shape, n - 1))
        fixed.assert_equal(x=x)
        for index in (n, -n - 1, 2**40):
            with pytest.raises(MoonPolyError, match=f"node 'node' is given index {index} of"):
                given.executable(x=x, i=np.full(shape, index))
    with pytest.raises(MoonPolyError, match="node 'node' is given index -3 of an axis of 2"):
        fixed.executable(x=np.zeros((2, 2), F32))


@pytest.mark.parametrize("data", ["x", "sizes"])
def test_a_constant_index_beyond_a_known_axis_is_refused_at_import(data):
    model = node_model("Gather", {"x": (F32, [4, "n"])}, constants={"i": np.array([1, 4])})
    if data == "sizes":
        model.graph.node[0].input[0] = "sizes"
        model.graph.node.insert(0, helper.make_node("Shape", ["x"], ["sizes"]))
    extent = 4 if data == "x" else 2
    index = 4
    with pytest.raises(MoonPolyError, match=f"'node'.*index {index} of an axis of {extent}"):
        compiler.compile(model)


def test_positions_made_of_sizes_need_no_check_where_they_are_within_their_axis(rng):
    """The last of the axis that it is read from; one further on is refused by name."""
    model = onnx.parser.parse_model(
        """< ir_version: 9, opset_import: ["" : 19] >
        g (float[n,3] x) => (float[1,3] y)
        <int64[1] one = {1}> {
            size = Shape<end = 1>(x)
            last = Sub(size, one)
            y = Gather(x, last)
        }"""
    )
    text = str(import_model(model).module)
    assert "checked_indices" not in text
    Pair(model).assert_equal(x=floats(rng, 5, 3))


def test_elements_are_gathered(rng):
    inputs = {"x": (F32, ["a", "b"]), "i": (I64, ["a", "k"])}
    pair = Pair(node_model("GatherElements", inputs, opset=13, axis=1))
    for a, b, k in ((1, 1, 3), (4, 6, 2)):
        pair.assert_equal(x=floats(rng, a, b), i=rng.integers(-b, b, (a, k)))


def test_elements_are_gathered_of_no_more_rows_than_there_are(rng):
    inputs = {"x": (F32, ["a", "b"]), "i": (I64, ["c", "k"])}
    pair = Pair(node_model("GatherElements", inputs, opset=13, axis=1))
    pair.assert_equal(x=floats(rng, 4, 3), i=rng.integers(-3, 3, (2, 5)))
    with pytest.raises(MoonPolyError, match=r"c and min\(c, a\) must be equal, got 5 and 4"):
        pair.executable(x=floats(rng, 4, 3), i=np.zeros((5, 5), I64))


@pytest.mark.parametrize(
    ("equation", "shapes", "sizes"),
    [
        ("bhid,bhjd->bhij", (["b", 2, "i", 4], ["b", 2, "j", 4]), ((3, 2, 5, 4), (3, 2, 7, 4))),
        ("ij,jk->", (["i", "j"], ["j", 3]), ((4, 5), (5, 3))),
        ("...ii->...i", (["n", "m", "m"],), ((2, 5, 5),)),
    ],
)
def test_indices_are_summed_over(rng, equation, shapes, sizes):
    names = "ab"[: len(shapes)]
    inputs = {name: (F32, shape) for name, shape in zip(names, shapes, strict=True)}
    pair = Pair(node_model("Einsum", inputs, opset=12, equation=equation))
    pair.assert_close(
        BOUND, **{name: floats(rng, *size) for name, size in zip(names, sizes, strict=True)}
    )


@pytest.mark.parametrize("mode", ["linear", "nearest", "cubic"])
@pytest.mark.parametrize("padding", ["zeros", "border", "reflection"])
def test_images_are_sampled(rng, mode, padding):
    inputs = {"x": (F32, ["n", 2, "h", "w"]), "grid": (F32, ["n", "p", "q", 2])}
    attrs = {"mode": mode, "padding_mode": padding}
    pair = Pair(node_model("GridSample", inputs, opset=20, **attrs))
    for n, h, w in ((1, 2, 3), (2, 7, 5)):
        grid = rng.uniform(-1.4, 1.4, (n, 4, 3, 2)).astype(F32)
        pair.assert_close(BOUND, x=floats(rng, n, 2, h, w), grid=grid)
