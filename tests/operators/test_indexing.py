"""Operators that read, write or sum up by indices, at symbolic sizes, against ONNX Runtime."""

from __future__ import annotations

import numpy as np
import pytest
from node_models import Pair, node_model
from tolerances import MODEL_REL

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


def test_elements_are_gathered(rng):
    inputs = {"x": (F32, ["a", "b"]), "i": (I64, ["a", "k"])}
    pair = Pair(node_model("GatherElements", inputs, opset=13, axis=1))
    for a, b, k in ((1, 1, 3), (4, 6, 2)):
        pair.assert_equal(x=floats(rng, a, b), i=rng.integers(-b, b, (a, k)))


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
