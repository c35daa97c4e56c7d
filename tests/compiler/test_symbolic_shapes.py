"""Models whose shapes are computed from symbolic dimensions run as ONNX Runtime runs them."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import onnx
import onnxruntime
import pytest
from graphs import Compiled, graph, random_feeds
from tolerances import MODEL_REL

INT = np.int64


@dataclass(frozen=True)
class Case:
    """A graph, its constants, and the sizes to run it at."""

    text: str
    sizes: list[dict[str, int]]
    constants: dict[str, np.ndarray] = field(default_factory=dict)


def _integers(*values: int) -> np.ndarray:
    return np.array(values, INT)


FLOATS = np.random.default_rng(3)
CASES = {
    # Positions that follow a cache: nothing but the range knows how long the result is.
    "range_after_a_size": Case(
        """g (float[past,2] x, float[s,2] y) => (int64[s] z) {
            past = Shape<start=0, end=1>(x) n = Shape<start=0, end=1>(y)
            to = Reshape(n, scalar) steps = Range(zero, to, one) z = Add(steps, past) }""",
        [{"past": 3, "s": 4}, {"past": 1, "s": 1}, {"past": 7, "s": 2}],
        {"scalar": np.zeros(0, INT), "zero": np.array(0, INT), "one": np.array(1, INT)},
    ),
    # Shape → arithmetic → Reshape, in the ways that exporters write it.
    "product_of_scalars": Case(
        """g (float[b,s,8] x) => (float[m,8] y) {
            d = Shape(x) one = Constant<value = int64 {1}>() zero = Constant<value = int64 {0}>()
            b = Gather(d, zero) s = Gather(d, one) n = Mul(b, s)
            ax = Constant<value_ints = [0]>() nv = Unsqueeze(n, ax) to = Concat<axis=0>(nv, last)
            y = Reshape(x, to) }""",
        [{"b": 2, "s": 3}, {"b": 1, "s": 1}],
        {"last": _integers(8)},
    ),
    "shape_through_int32_and_slice": Case(
        """g (float[b,s,8] x) => (float[p,q] y) {
            d = Shape(x) narrow = Cast<to=6>(d) first = Slice(narrow, from, to, axes)
            wide = Cast<to=7>(first) target = Concat<axis=0>(wide, rest)
            y = Reshape(x, target) }""",
        [{"b": 2, "s": 3}, {"b": 5, "s": 1}],
        {
            "from": _integers(0),
            "to": _integers(1),
            "axes": _integers(0),
            "rest": _integers(-1),
        },
    ),
    "half_in_floating_point": Case(
        """g (float[b,s] x) => (float[b,t] y) {
            d = Shape<start=1, end=2>(x) f = Cast<to=1>(d) h = Mul(f, half) c = Ceil(h)
            end = Cast<to=7>(c) y = Slice(x, zero, end, one) }""",
        [{"b": 2, "s": 6}, {"b": 2, "s": 7}, {"b": 1, "s": 1}],
        {"half": np.array([0.5], np.float32), "zero": _integers(0), "one": _integers(1)},
    ),
    "a_factor_that_rounds": Case(
        """g (float[s] x) => (float[t] y) {
            d = Shape(x) f = Cast<to=1>(d) h = Mul(f, most) c = Floor(h)
            end = Cast<to=7>(c) y = Slice(x, zero, end) }""",
        [{"s": 10}, {"s": 13}, {"s": 3}],
        {"most": np.array([0.7], np.float32), "zero": _integers(0)},
    ),
    "where_and_equal": Case(
        """g (float[1,s] x) => (float[p,s] y) {
            d = Shape(x) minus = ConstantOfShape<value = int64[1] {-1}>(two)
            is = Equal(asked, minus) to = Where(is, d, asked) y = Expand(x, to) }""",
        [{"s": 5}, {"s": 1}],
        {"asked": _integers(3, -1), "two": _integers(2)},
    ),
    "size_reduced_and_divided": Case(
        """g (float[b,s,4] x) => (float[m,2] y) {
            n = Size(x) two = Constant<value = int64 {2}>() m = Div(n, two)
            ax = Constant<value_ints = [0]>() mv = Unsqueeze(m, ax) to = Concat<axis=0>(mv, last)
            y = Reshape(x, to) }""",
        [{"b": 3, "s": 5}, {"b": 1, "s": 1}],
        {"last": _integers(2)},
    ),
    "shape_as_a_matrix": Case(
        """g (float[b,s] x) => (float[p,q] y) {
            d = Shape(x) m = Reshape(d, square) f = Transpose(m) flat = Reshape(f, back)
            twice = Tile(flat, one) y = Reshape(x, twice) }""",
        [{"b": 3, "s": 4}],
        {"square": _integers(2, 1), "back": _integers(-1), "one": _integers(1)},
    ),
    "one_size_put_into_a_shape": Case(
        """g (float[b,s,4] x) => (float[b,t] y) {
            d = Shape<end=2>(x) to = ScatterND(d, at, open) y = Reshape(x, to) }""",
        [{"b": 3, "s": 5}],
        {"at": np.array([[1]], INT), "open": _integers(-1)},
    ),
    # Dimensions that are not proven equal.
    "broadcast_of_two_symbols": Case(
        """g (float[m,4] a, float[n,4] b) => (float[p,2] y) {
            c = Add(a, b) y = Reshape(c, to) }""",
        [{"m": 3, "n": 3}, {"m": 1, "n": 3}, {"m": 4, "n": 1}, {"m": 1, "n": 1}],
        {"to": _integers(-1, 2)},
    ),
    "cache_with_its_own_length": Case(
        """g (float[b,2,s,4] q, float[b,2,s,4] k, float[b,2,p,4] past, float[b,1,s,t] mask)
            => (float[b,s,8] y) {
            all = Concat<axis=2>(past, k) kt = Transpose<perm=[0,1,3,2]>(all) w = MatMul(q, kt)
            m = Add(w, mask) e = Softmax<axis=-1>(m) o = MatMul(e, all)
            h = Transpose<perm=[0,2,1,3]>(o) y = Reshape(h, to) }""",
        [{"b": 1, "s": 3, "p": 5, "t": 8}, {"b": 2, "s": 1, "p": 4, "t": 1}],
        {"to": _integers(0, 0, 8)},
    ),
    "rows_of_two_inputs_side_by_side": Case(
        "g (float[m,4] a, float[n,3] b) => (float[m,7] y) { y = Concat<axis=1>(a, b) }",
        [{"m": 3, "n": 3}, {"m": 1, "n": 1}],
    ),
    "pyramid": Case(
        """g (float[1,2,h,w] x) => (float[1,2,p,q] y) {
            c = Conv<strides=[2,2], pads=[1,1,1,1]>(x, k)
            u = Resize<mode="nearest", coordinate_transformation_mode="asymmetric",
                       nearest_mode="floor">(c, , scales)
            y = Add(x, u) }""",
        [{"h": 8, "w": 6}, {"h": 2, "w": 4}],
        {
            "k": FLOATS.standard_normal((2, 2, 3, 3)).astype(np.float32),
            "scales": np.array([1, 1, 2, 2], np.float32),
        },
    ),
    # Windows at symbolic sizes.
    "max_pool_same": Case(
        """g (float[1,2,h,w] x) => (float[1,2,p,q] y) {
            y = MaxPool<kernel_shape=[2,2], auto_pad="SAME_UPPER">(x) }""",
        [{"h": 7, "w": 9}, {"h": 1, "w": 1}],
    ),
    "max_pool_same_of_stride_two": Case(
        """g (float[1,2,h,w] x) => (float[1,2,p,q] y) {
            y = MaxPool<kernel_shape=[3,3], strides=[2,2], auto_pad="SAME_LOWER">(x) }""",
        [{"h": 7, "w": 10}, {"h": 1, "w": 2}],
    ),
    "conv_same": Case(
        """g (float[1,2,h,w] x) => (float[1,2,p,q] y) {
            y = Conv<strides=[2,2], auto_pad="SAME_UPPER">(x, k) }""",
        [{"h": 7, "w": 9}, {"h": 8, "w": 8}, {"h": 1, "w": 1}],
        {"k": FLOATS.standard_normal((2, 2, 3, 3)).astype(np.float32)},
    ),
    "max_pool_rounding_up": Case(
        """g (float[1,2,h,w] x) => (float[1,2,p,q] y) {
            y = MaxPool<kernel_shape=[3,3], strides=[2,2], ceil_mode=1>(x) }""",
        [{"h": 8, "w": 10}, {"h": 7, "w": 9}, {"h": 3, "w": 4}],
    ),
    "average_pool_after_a_stride": Case(
        """g (float[n,4,h,w] x) => (float[n,4,p,q] y) {
            c = Conv<strides=[2,1], pads=[1,1,1,1]>(x, k)
            y = AveragePool<kernel_shape=[3,2], strides=[3,2]>(c) }""",
        [{"n": 2, "h": 7, "w": 37}, {"n": 1, "h": 12, "w": 2}],
        {"k": FLOATS.standard_normal((4, 4, 3, 3)).astype(np.float32)},
    ),
    # Ranges, pads and repeats by symbols.
    "slice_to_a_length": Case(
        """g (float[b,s,4] x) => (float[b,s,4] y) {
            s = Shape<start=1, end=2>(x) p = Slice(table, zero, s, zero) y = Add(x, p) }""",
        [{"b": 2, "s": 5}, {"b": 1, "s": 16}],
        {"table": FLOATS.standard_normal((16, 4)).astype(np.float32), "zero": _integers(0)},
    ),
    "slice_but_the_last": Case(
        "g (float[b,s,4] x) => (float[b,t,4] y) { y = Slice(x, one, minus, one) }",
        [{"b": 2, "s": 5}, {"b": 2, "s": 2}, {"b": 2, "s": 1}],
        {"one": _integers(1), "minus": _integers(-1)},
    ),
    "slice_the_last_two": Case(
        "g (float[b,s,4] x) => (float[b,t,4] y) { y = Slice(x, minus, most, one) }",
        [{"b": 2, "s": 5}, {"b": 2, "s": 1}],
        {"one": _integers(1), "minus": _integers(-2), "most": _integers(2**63 - 1)},
    ),
    "slice_backwards": Case(
        "g (float[s] x) => (float[t] y) { y = Slice(x, minus, least, zero, step) }",
        [{"s": 5}, {"s": 6}, {"s": 1}],
        {
            "minus": _integers(-1),
            "least": _integers(-(2**63) + 1),
            "zero": _integers(0),
            "step": _integers(-2),
        },
    ),
    "pad_by_a_length": Case(
        """g (float[s] x) => (float[t] y) {
            n = Shape(x) pads = Concat<axis=0>(zero, n) y = Pad(x, pads) }""",
        [{"s": 5}, {"s": 1}],
        {"zero": _integers(0)},
    ),
    "range_to_a_length": Case(
        """g (float[b,s] x) => (int64[s] y) {
            n = Shape<start=1, end=2>(x) axes = Constant<value_ints = [0]>()
            e = Squeeze(n, axes) zero = Constant<value = int64 {0}>()
            one = Constant<value = int64 {1}>() y = Range(zero, e, one) }""",
        [{"b": 2, "s": 5}, {"b": 2, "s": 1}],
    ),
    "tile_by_a_length": Case(
        """g (float[s,2] x) => (float[t,4] y) {
            n = Shape<end=1>(x) r = Concat<axis=0>(n, two) y = Tile(x, r) }""",
        [{"s": 3}, {"s": 1}],
        {"two": _integers(2)},
    ),
    "split_in_halves": Case(
        """g (float[s,2] x) => (float[p,2] a, float[q,2] b) {
            a, b = Split<axis=0, num_outputs=2>(x) }""",
        [{"s": 5}, {"s": 4}, {"s": 2}],
    ),
    "resize_to_another_image": Case(
        """g (float[1,2,h,w] x, float[1,2,p,q] r) => (float[1,2,p,q] y) {
            d = Shape<end=2>(x) e = Shape<start=2>(r) to = Concat<axis=0>(d, e)
            y = Resize<mode="linear">(x, , , to) }""",
        [{"h": 3, "w": 4, "p": 6, "q": 8}, {"h": 5, "w": 5, "p": 2, "q": 7}],
    ),
    # Sizes as data.
    "scaled_by_a_length": Case(
        """g (float[n,4] x) => (float[n,4] y) {
            d = Shape<end=1>(x) f = Cast<to=1>(d) r = Sqrt(f) h = Mul(f, most) a = Div(x, r)
            y = Mul(a, h) }""",
        [{"n": 3}, {"n": 10}],
        {"most": np.array([0.7], np.float32)},
    ),
    # A rank is known, so only one branch of this is ever imported.
    "branch_by_rank": Case(
        """g (float[b,s] x) => (float[b,s] y) {
            d = Shape(x) n = Size(d) two = Constant<value = int64 {2}>() is = Equal(n, two)
            y = If<then_branch = t () => (float[b,s] u) { u = Relu(x) },
                   else_branch = e () => (float[z] v) { v = Reshape(x, flat) }>(is) }""",
        [{"b": 2, "s": 3}],
        {"flat": _integers(-1)},
    ),
}


def _model(case: Case) -> onnx.ModelProto:
    model = graph(case.text, **case.constants)
    if "num_outputs" in case.text:
        model.opset_import[0].version = 18
    return model


@pytest.mark.parametrize("name", CASES)
def test_runs_as_onnx_runtime_does(name):
    case = CASES[name]
    model = _model(case)
    session = onnxruntime.InferenceSession(model.SerializeToString())
    compiled = Compiled(model)
    rng = np.random.default_rng(11)
    for sizes in case.sizes:
        feeds = random_feeds(model, rng, **sizes)
        for got, want in zip(compiled(**feeds), session.run(None, feeds), strict=True):
            assert got.shape == want.shape
            assert got.dtype == want.dtype
            error = np.abs(got.astype(np.float64) - want)
            assert np.all(error <= MODEL_REL["float32"] * np.abs(want).max(initial=0.0))
