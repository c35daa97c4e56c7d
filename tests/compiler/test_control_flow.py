"""If, Loop and Scan against ONNX Runtime; conditions, trips and shapes that depend on data."""

from __future__ import annotations

import numpy as np
import onnxruntime
import pytest
from graphs import Compiled, graph
from tolerances import MODEL_REL, model_error

from moonpoly import compiler
from moonpoly.compiler.frontend import import_model
from moonpoly.error import MoonPolyError, UnsupportedError


def check(model, cases, run=None):
    """Compile once and compare every output of every case with ONNX Runtime."""
    run = run or Compiled(model)
    session = onnxruntime.InferenceSession(
        model.SerializeToString(), providers=["CPUExecutionProvider"]
    )
    for feeds in cases:
        want = session.run(None, feeds)
        got = run(**feeds)
        assert len(got) == len(want)
        for left, right in zip(got, want, strict=True):
            assert left.dtype == right.dtype, feeds
            if left.shape[:1] == right.shape[:1] == (0,):
                # Of what is stacked of nothing, ONNX Runtime keeps no size that is not a number.
                continue
            assert left.shape == right.shape, feeds
            assert model_error(left, right) <= MODEL_REL["float32"], feeds


def x_of(rng, *shape):
    return rng.standard_normal(shape).astype(np.float32)


def count(value):
    return np.array(value, np.int64)


W = np.random.default_rng(3).standard_normal((4, 4)).astype(np.float32)

BRANCHES = """g (bool c, float[n,4] x) => (float[n,4] y, float[p,q] z) {
    h = MatMul(x, w)
    y, z = If (c) <
        then_branch = t () => (float[n,4] a, float[r,4] b) {
            e = Exp(h) a = Add(e, x) b = MatMul(x, w) },
        else_branch = f () => (float[n,4] a, float[s,t] b) {
            a = Identity(h) m = MatMul(h, w) b = Concat<axis=0>(m, x) }
    >
}"""


def test_one_branch_is_run_with_values_from_outside(rng):
    model = graph(BRANCHES, w=W)
    cases = [{"c": np.array(c), "x": x_of(rng, n, 4)} for c in (True, False) for n in (1, 7)]
    check(model, cases)


def test_branches_are_functions_of_one_dataflow_block():
    mod = import_model(graph(BRANCHES, w=W)).module
    assert len(mod.get_global_vars()) == 3
    assert len(mod["main"].body.blocks) == 1


def test_the_branch_that_is_not_taken_is_not_run(rng):
    # It would read beyond the end of a sequence.
    model = graph(
        """g (bool c, float[n] x, int64 at) => (float[n] y) {
            s = SequenceConstruct(x, x)
            y = If (c) <
                then_branch = t () => (float[n] a) { a = SequenceAt(s, at) },
                else_branch = f () => (float[n] a) { a = Neg(x) }
            >
        }"""
    )
    run = Compiled(model)
    x = x_of(rng, 3)
    check(model, [{"c": np.array(at < 2), "x": x, "at": count(at)} for at in (1, 7)], run)
    with pytest.raises(MoonPolyError, match="position 7 of a sequence is not in -2 to 1"):
        run(c=np.array(True), x=x, at=count(7))


def test_what_a_branch_hands_through_is_a_copy(rng):
    # The memory of h is used again after the branch.
    model = graph(
        """g (bool c, float[n,4] x) => (float[n,4] y, float[n,4] z) {
            h = MatMul(x, w)
            k = If (c) <
                then_branch = t () => (float[n,4] a) { a = Identity(h) },
                else_branch = f () => (float[n,4] a) { a = Neg(h) }
            >
            u = MatMul(x, w2) v = MatMul(u, w2) y = Sub(v, u) z = Add(k, y)
        }""",
        w=W,
        w2=-W,
    )
    check(model, [{"c": np.array(c), "x": x_of(rng, 5, 4)} for c in (True, False)])


def test_a_condition_on_a_rank_is_decided_at_compile_time(rng):
    model = graph(
        """g (float[n,4] x) => (float[n,4] y) {
            s = Shape(x) r = Size(s) two = Constant<value_int=2>() c = Equal(r, two)
            y = If (c) <
                then_branch = t () => (float[n,4] a) { a = Identity(x) },
                else_branch = f () => (float[n,4] a) { a = NoSuchOperatorHere(x) }
            >
        }""".replace("NoSuchOperatorHere", "Neg")
    )
    assert [gvar.name_hint for gvar in import_model(model).module.get_global_vars()] == ["main"]
    check(model, [{"x": x_of(rng, 3, 4)}])


def test_a_condition_on_a_size_is_decided_at_run_time(rng):
    model = graph(
        """g (float[n,4] x) => (float[m,4] y) {
            s = Shape<start=0,end=1>(x) two = Constant<value_int=2>() c = Less(s, two)
            y = If (c) <
                then_branch = t () => (float[m,4] a) { a = Concat<axis=0>(x, x) },
                else_branch = f () => (float[m,4] a) { a = Identity(x) }
            >
        }"""
    )
    check(model, [{"x": x_of(rng, n, 4)} for n in (1, 2, 5)])


def test_branches_in_branches_see_every_level(rng):
    model = graph(
        """g (bool c, bool d, float[n] x, float[n] u) => (float[n] y) {
            h = Mul(x, u)
            y = If (c) <
                then_branch = t () => (float[n] a) {
                    k = Add(h, x)
                    a = If (d) <
                        then_branch = tt () => (float[n] b) { p = Add(k, h) b = Sub(p, u) },
                        else_branch = tf () => (float[n] b) { b = Mul(k, x) }
                    >
                },
                else_branch = f () => (float[n] a) { a = Neg(x) }
            >
        }"""
    )
    flags = [np.array(True), np.array(False)]
    check(
        model,
        [{"c": c, "d": d, "x": x_of(rng, 3), "u": x_of(rng, 3)} for c in flags for d in flags],
    )


POWERS = """g (int64 trips, bool go, float[n,4] x) => (float[n,4] y, float[k,n,4] ys) {
    y, ys = Loop (trips, go, x) <
        body = b (int64 i, bool c, float[n,4] s) => (bool d, float[n,4] t, float[n,4] o) {
            m = MatMul(s, w) t = Tanh(m) o = Add(t, x)
            sum = ReduceSum<keepdims=0>(t) d = Less(sum, limit)
        }
    >
}"""


def test_a_loop_ends_by_count_or_by_condition(rng):
    model = graph(POWERS, w=W, limit=np.float32(3))
    cases = [
        {"trips": count(trips), "go": np.array(go), "x": x_of(rng, n, 4)}
        for trips, go, n in [(0, True, 2), (5, False, 3), (1, True, 1), (9, True, 5), (50, True, 2)]
    ]
    check(model, cases)


def test_a_state_may_change_its_shape(rng):
    model = graph(
        """g (int64 trips, float[n,4] x) => (float[m,4] y) {
            y = Loop (trips, , x) <
                body = b (int64 i, bool c, float[m,4] s) => (bool d, float[p,4] t) {
                    d = Identity(c) t = Concat<axis=0>(s, x)
                }
            >
        }"""
    )
    check(model, [{"trips": count(k), "x": x_of(rng, n, 4)} for k, n in [(0, 2), (1, 1), (4, 3)]])


def test_a_loop_over_the_elements_of_a_dimension(rng):
    # Its number of iterations is a dimension, so the scan output's is known.
    model = graph(
        """g (float[n,4] x) => (float[n,4] y) {
            s = Shape<start=0,end=1>(x) trips = Squeeze(s) zero = Constant<value_float=0.0>()
            go = Constant<value=bool {1}>()
            last, ys = Loop (trips, go, zero) <
                body = b (int64 i, bool c, float s_) => (bool d, float t, float[4] o) {
                    d = Identity(c) o = Gather<axis=0>(x, i)
                    m = ReduceMax<keepdims=0>(o) t = Add(s_, m)
                }
            >
            y = Add(ys, last)
        }"""
    )
    (output,) = import_model(model).outputs
    assert output.shape == ("n", 4)
    check(model, [{"x": x_of(rng, n, 4)} for n in (1, 6)])


def test_loops_in_loops_and_branches(rng):
    model = graph(
        """g (int64 m, int64 k, float[n] x) => (float[n] y) {
            y = Loop (m, , x) <
                body = outer (int64 i, bool c, float[n] s) => (bool d, float[n] t) {
                    d = Identity(c)
                    u = Loop (k, , s) <
                        body = inner (int64 j, bool e, float[n] p) => (bool f, float[n] q) {
                            f = Identity(e) even = Equal(i, j)
                            r = If (even) <
                                then_branch = yes () => (float[n] a) { a = Add(p, x) },
                                else_branch = no () => (float[n] a) { a = Sub(p, s) }
                            >
                            q = Mul(r, half)
                        }
                    >
                    t = Add(u, x)
                }
            >
        }""",
        half=np.float32(0.5),
    )
    check(
        model,
        [{"m": count(m), "k": count(k), "x": x_of(rng, 3)} for m, k in [(0, 3), (3, 0), (3, 4)]],
    )


SCAN = """g (float[h] start, float[n,{axis}] x) => (float[h] last, {out} ys) {{
    last, ys = Scan <num_scan_inputs=1, {attributes},
        body = b (float[h] s, float[h] e) => (float[h] t, float[h] o) {{
            m = Mul(s, half) t = Add(m, e) o = Neg(t)
        }}
    > (start, x)
}}"""


@pytest.mark.parametrize(
    ("attributes", "axis", "out"),
    [
        ("scan_input_axes=[0]", "h", "float[n,h]"),
        ("scan_input_directions=[1], scan_output_directions=[1]", "h", "float[n,h]"),
        ("scan_output_axes=[1]", "h", "float[h,n]"),
        ("scan_output_axes=[-1], scan_output_directions=[1]", "h", "float[h,n]"),
    ],
)
def test_scan_walks_axes_in_both_directions(attributes, axis, out, rng):
    model = graph(SCAN.format(attributes=attributes, axis=axis, out=out), half=np.float32(0.5))
    check(model, [{"start": x_of(rng, 3), "x": x_of(rng, n, 3)} for n in (1, 5)])


def test_a_sequence_grows_in_a_loop(rng):
    model = graph(
        """g (int64 trips, float[n,4] x) => (float[m,4] y) {
            none = SequenceEmpty<dtype=1>()
            all = Loop (trips, , none) <
                body = b (int64 i, bool c, seq(float[n,4]) s) => (bool d, seq(float[n,4]) t) {
                    d = Identity(c) f = Cast<to=1>(i) e = Add(x, f) t = SequenceInsert(s, e)
                }
            >
            y = ConcatFromSequence<axis=0>(all)
        }"""
    )
    check(model, [{"trips": count(k), "x": x_of(rng, n, 4)} for k, n in [(1, 2), (4, 3)]])


def test_an_operator_in_a_branch_is_refused_by_its_path():
    model = graph(
        """g (bool c, float[n] x) => (float[n] y) {
            y = If (c) <
                then_branch = t () => (float[n] a) { a = com.microsoft.NoSuchThing(x) },
                else_branch = f () => (float[n] a) { a = Neg(x) }
            >
        }"""
    )
    with pytest.raises(UnsupportedError, match=r"com\.microsoft\.NoSuchThing \(node 'y/a'"):
        compiler.compile(model)


@pytest.mark.parametrize("size", ["2", "k"])
def test_a_condition_of_two_elements_is_refused(size):
    model = graph(
        f"""g (float[n] x, bool[{size}] c) => (float[n] y) {{
            [choice] y = If (c) <
                then_branch = t () => (float[n] a) {{ a = Exp(x) }},
                else_branch = f () => (float[n] b) {{ b = Neg(x) }}
            >
        }}"""
    )
    if size == "2":
        with pytest.raises(UnsupportedError, match=r"'choice'.*the condition must be one element"):
            compiler.compile(model)
        return
    run = compiler.compile(model)
    with pytest.raises(MoonPolyError, match="dimensions k and 1 must be equal, got 2 and 1"):
        run(x=np.zeros(3, np.float32), c=np.ones(2, bool))
