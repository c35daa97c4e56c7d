"""Sizes that depend on data, and what follows them, against ONNX Runtime."""

from __future__ import annotations

import numpy as np
import onnxruntime
import pytest
from graphs import Compiled, graph
from tolerances import MODEL_REL, model_error

from moonpoly.error import InputError, MoonPolyError

W = np.random.default_rng(5).standard_normal((4, 7)).astype(np.float32)


def check(model, cases, run=None):
    run = run or Compiled(model)
    session = onnxruntime.InferenceSession(
        model.SerializeToString(), providers=["CPUExecutionProvider"]
    )
    for feeds in cases:
        want = session.run(None, feeds)
        for left, right in zip(run(**feeds), want, strict=True):
            assert left.shape == right.shape and left.dtype == right.dtype, feeds
            assert model_error(left, right) <= MODEL_REL["float32"], feeds
    return run


def x_of(rng, *shape):
    return rng.standard_normal(shape).astype(np.float32)


def ints(*values):
    return np.array(values, np.int64)


def test_a_product_of_the_rows_that_are_found(rng):
    model = graph(
        """g (float[n,4] x, bool[n] keep) => (float[k,7] y, int64[1,k] at) {
            at = NonZero(keep) rows = Squeeze(at, zero) kept = Gather<axis=0>(x, rows)
            p = MatMul(kept, w) q = Relu(p) y = Add(q, p)
        }""",
        w=W,
        zero=ints(0),
    )
    cases = [{"x": x_of(rng, n, 4), "keep": rng.integers(0, 2, n).astype(bool)} for n in (1, 8, 33)]
    cases.append({"x": x_of(rng, 5, 4), "keep": np.zeros(5, bool)})
    check(model, cases)


def test_two_results_of_one_size_add_up(rng):
    model = graph(
        """g (float[n] x, bool[n] keep) => (float[k] y) {
            a = Compress<axis=0>(x, keep) e = Exp(x) b = Compress<axis=0>(e, keep)
            y = Add(a, b)
        }"""
    )
    check(model, [{"x": x_of(rng, n), "keep": rng.random(n) < 0.5} for n in (1, 3, 40)])


def test_detections_are_gathered(rng):
    model = graph(
        """g (float[b,n,4] boxes, float[b,c,n] scores, int64 most) => (float[k,4] y) {
            found = NonMaxSuppression(boxes, scores, most, overlap, least)
            element = Gather<axis=1>(found, zero) box = Gather<axis=1>(found, two)
            pair = Concat<axis=1>(element, box) y = GatherND(boxes, pair)
        }""",
        overlap=np.float32([0.4]),
        least=np.float32([0.2]),
        zero=ints(0),
        two=ints(2),
    )
    cases = []
    for b, c, n in [(1, 1, 1), (2, 3, 30)]:
        corners = rng.random((b, n, 4), np.float32)
        cases.append(
            {
                "boxes": corners,
                "scores": rng.random((b, c, n), np.float32),
                "most": np.array(5, np.int64),
            }
        )
    check(model, cases)


def test_the_largest_of_as_many_as_there_are(rng):
    model = graph(
        """g (float[b,n] x, int64[1] k) => (float[b,m] y, int64[b,m] i) {
            s = Shape<start=1>(x) fits = Min(k, s) y, i = TopK(x, fits)
        }"""
    )
    run = check(
        model, [{"x": x_of(rng, 2, n), "k": ints(k)} for n, k in [(5, 3), (5, 9), (1, 1), (4, 0)]]
    )
    assert run.executable.outputs[0].shape[0] == "b"


def test_reshape_slice_and_range_by_data(rng):
    model = graph(
        """g (float[n,4] x, int64[2] shape, int64[1] first, int64[1] last, int64 end)
            => (float[p,q] y, float[r,4] z, int64[e] i) {
            y = Reshape(x, shape) z = Slice(x, first, last) i = Range(zero, end, two)
        }""",
        zero=np.int64(0),
        two=np.int64(2),
    )
    run = Compiled(model)
    cases = [
        {"x": x_of(rng, 6, 4), "shape": ints(*s), "first": ints(a), "last": ints(b), "end": e}
        for s, a, b, e in [
            ((3, 8), 0, 6, np.int64(5)),
            ((-1, 12), 2, -1, np.int64(0)),
            ((0, 4), -3, 100, np.int64(-2)),
            ((2, -1), 5, 1, np.int64(8)),
        ]
    ]
    for case in cases:
        case["end"] = np.asarray(case["end"])
    check(model, cases, run)
    with pytest.raises(InputError, match=r"can't reshape .*6, 4.* to .*5, 5"):
        run(**(cases[0] | {"shape": ints(5, 5)}))


def test_slices_along_axes_and_steps_that_are_data(rng):
    model = graph(
        """g (float[n,m,3] x, int64[2] a, int64[2] b, int64[2] axes, int64[2] steps)
            => (float[p,q,r] y) { y = Slice(x, a, b, axes, steps) }"""
    )
    cases = [
        {
            "x": x_of(rng, 6, 5, 3),
            "a": ints(*a),
            "b": ints(*b),
            "axes": ints(*axes),
            "steps": ints(*steps),
        }
        for a, b, axes, steps in [
            ((0, 1), (6, 4), (0, 1), (1, 1)),
            ((-1, 10), (-100, 0), (2, 0), (-1, -2)),
            ((3, 0), (3, 3), (1, -1), (1, 2)),
        ]
    ]
    run = check(model, cases)
    with pytest.raises(MoonPolyError, match="can't slice axis 0 of rank 3 with step 0"):
        run(**(cases[0] | {"steps": ints(0, 1)}))


def test_a_range_of_any_step(rng):
    model = graph(
        """g (int64 first, int64 last, int64 step) => (int64[n] y) {
            y = Range(first, last, step)
        }"""
    )
    names = ("first", "last", "step")
    cases = [
        {name: np.array(value, np.int64) for name, value in zip(names, numbers, strict=True)}
        for numbers in [(0, 7, 3), (5, -3, -2), (5, 5, 1), (0, 4, -1), (-4, 5, 3)]
    ]
    run = check(model, cases)
    with pytest.raises(MoonPolyError, match="a Range from 0 to 4 has step 0"):
        run(**{name: np.array(4 * (name == "last"), np.int64) for name in names})


def test_unique_rows_restore_what_they_came_from(rng):
    model = graph(
        """g (int64[n,2] x) => (int64[k,2] y, int64[n,2] again, int64[k] counts) {
            y, first, inverse, counts = Unique<axis=0>(x)
            again = Gather<axis=0>(y, inverse)
        }"""
    )
    check(model, [{"x": rng.integers(0, 3, (n, 2))} for n in (1, 4, 50)])


def test_real_numbers_computed_from_sizes(rng):
    model = graph(
        """g (float[n,4] x) => (float[n,4] y) {
            s = Shape<end=1>(x) f = Cast<to=1>(s) half = Div(f, two) root = Sqrt(f)
            h = Mul(x, half) y = Add(h, root)
        }""",
        two=np.float32(2),
    )
    check(model, [{"x": x_of(rng, n, 4)} for n in (1, 3, 8)])


def test_a_slice_to_the_end_of_a_size_that_is_found_plans_no_memory_by_the_largest_integer(rng):
    model = graph(
        """g (float[n,12] x, int64[4] pads) => (float[a,3] y) {
            p = Pad<mode="reflect">(x, pads) r = Reshape(p, t) s = Slice(r, z, m)
            q = MatMul(s, w) y = Add(q, q)
        }""",
        t=ints(-1, 16),
        z=ints(0, 0),
        m=ints(2**31 - 1, 2**31 - 1),
        w=x_of(rng, 16, 3),
    )
    check(model, [{"x": x_of(rng, n, 12), "pads": ints(0, 2, 0, 2)} for n in (1, 3, 8)])


@pytest.mark.parametrize("mode", ["reflect", "edge", "wrap"])
def test_known_pads_of_every_mode_give_sizes_in_symbols(rng, mode):
    text = f"""g (float[n,5] x) => (float[n,k] y) {{
        p = Pad<mode="{mode}">(x, pads) y = MatMul(p, w)
    }}"""
    for pads in (ints(0, 3, 0, 2), ints(0, 4, 0, 0)):
        width = 5 + int(pads[1] + pads[3])
        model = graph(text, pads=pads, w=x_of(rng, width, 4))
        check(model, [{"x": x_of(rng, n, 5)} for n in (1, 2, 7)])


def test_wrapping_what_is_taken_off_is_refused():
    model = graph(
        'g (float[n,5] x) => (float[n,5] y) { p = Pad<mode="wrap">(x, pads) y = Exp(p) }',
        pads=ints(0, -1, 0, 1),
    )
    with pytest.raises(MoonPolyError, match="takes off and wraps at once"):
        Compiled(model)
