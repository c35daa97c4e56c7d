"""Sums, maxima and normalisations over any axis, at awkward shapes and long axes."""

from __future__ import annotations

import numpy as np
import pytest
from schedule.conftest import assert_close, compile_graph, symbols
from scipy import special
from tvm import relax

SHAPES = [(1, 1), (2, 3), (15, 17), (16, 16), (33, 97), (5, 1000), (1, 18710), (0, 5)]


@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize(
    ("name", "exact"), [("sum", np.sum), ("max", np.max), ("mean", np.mean), ("min", np.min)]
)
def test_reductions(target, name, exact, axis, rng):
    n, m = symbols("nm")
    run = compile_graph(
        target, [((n, m), "float32")], lambda x: getattr(relax.op, name)(x, axis=[axis])
    )
    for shape in SHAPES:
        if shape[axis] == 0:
            continue
        x = rng.standard_normal(shape, dtype=np.float32)
        want = exact(x.astype(np.float64), axis=axis)
        # A sum may cancel to nothing: its error is relative to what was summed up.
        size = np.abs(x).sum(axis) if name == "sum" else np.abs(x).max(initial=1)
        assert np.all(np.abs(run(x) - want) <= 2e-6 * size)


def test_empty_sums_are_zero(target):
    n, m = symbols("nm")
    run = compile_graph(target, [((n, m), "float32")], lambda x: relax.op.sum(x, axis=[1]))
    np.testing.assert_array_equal(run(np.zeros((3, 0), np.float32)), np.zeros(3))
    assert run(np.zeros((0, 4), np.float32)).shape == (0,)


def test_masked_mean_pooling(target, rng):
    n, m = symbols("nm")
    run = compile_graph(
        target,
        [((n, m, 384), "float32"), ((n, m, 384), "float32")],
        lambda x, mask: relax.op.sum(relax.op.multiply(x, mask), axis=[1]),
    )
    for rows, length in [(1, 1), (2, 37), (1, 513)]:
        x = rng.standard_normal((rows, length, 384), dtype=np.float32)
        mask = (rng.random((rows, length, 384)) < 0.5).astype(np.float32)
        assert_close(run(x, mask), (x.astype(np.float64) * mask).sum(1))


def test_global_average_pooling(target, rng):
    n, h, w = symbols("nhw")
    run = compile_graph(
        target,
        [((n, 20, h, w), "float32")],
        lambda x: relax.op.mean(x, axis=[2, 3], keepdims=True),
    )
    assert set(run.rules.values()) == {"rows"}
    for shape in [(1, 20, 1, 1), (2, 20, 7, 7), (1, 20, 14, 9), (1, 20, 57, 3)]:
        x = rng.standard_normal(shape, dtype=np.float32) + 1
        assert_close(run(x), x.astype(np.float64).mean((2, 3), keepdims=True))


@pytest.mark.parametrize("axis", [0, 1])
def test_softmax(target, axis, rng):
    n, m = symbols("nm")
    run = compile_graph(target, [((n, m), "float32")], lambda x: relax.op.nn.softmax(x, axis=axis))
    assert set(run.rules.values()) == {"rows"}
    for shape in SHAPES:
        x = rng.standard_normal(shape, dtype=np.float32) * 5
        want = special.softmax(x.astype(np.float64), axis) if x.size else x.astype(np.float64)
        assert_close(run(x), want)


def test_softmax_with_masked_scores(target, rng):
    n, m = symbols("nm")
    run = compile_graph(target, [((n, m), "float32")], lambda x: relax.op.nn.softmax(x, axis=-1))
    x = rng.standard_normal((4, 40), dtype=np.float32)
    x[:, 21:] = np.finfo(np.float32).min
    assert_close(run(x), special.softmax(x.astype(np.float64), -1))


def test_softmax_of_a_middle_axis(target, rng):
    n, c, h = symbols("nch")
    run = compile_graph(target, [((n, c, h), "float32")], lambda x: relax.op.nn.softmax(x, axis=1))
    for shape in [(1, 1, 1), (2, 21, 17), (1, 5, 100)]:
        x = rng.standard_normal(shape, dtype=np.float32)
        assert_close(run(x), special.softmax(x.astype(np.float64), 1))


def test_log_softmax(target, rng):
    n, m = symbols("nm")
    run = compile_graph(
        target, [((n, m), "float32")], lambda x: relax.op.nn.log_softmax(x, axis=-1)
    )
    for shape in [(2, 3), (7, 97)]:
        x = rng.standard_normal(shape, dtype=np.float32)
        assert_close(run(x), special.log_softmax(x.astype(np.float64), -1))


def _normalise(x, axes, epsilon):
    exact = x.astype(np.float64)
    mean = exact.mean(axes, keepdims=True)
    return (exact - mean) / np.sqrt(exact.var(axes, keepdims=True) + epsilon)


@pytest.mark.parametrize("width", [1, 15, 16, 17, 384])
def test_layer_norm(target, width, rng):
    n, m = symbols("nm")
    gamma = rng.standard_normal(width, dtype=np.float32)
    beta = rng.standard_normal(width, dtype=np.float32)
    run = compile_graph(
        target,
        [((n, m, width), "float32")],
        lambda x: relax.op.nn.layer_norm(
            x, relax.const(gamma), relax.const(beta), axes=[-1], epsilon=1e-5
        ),
    )
    for shape in [(1, 1), (2, 37), (0, 3)]:
        # A mean far from zero must not cost the variance its digits.
        x = rng.standard_normal((*shape, width), dtype=np.float32) + 10
        assert_close(run(x), _normalise(x, (-1,), 1e-5) * gamma + beta, scale=10)


def test_rms_norm(target, rng):
    n, m = symbols("nm")
    weight = rng.standard_normal(100, dtype=np.float32)
    run = compile_graph(
        target,
        [((n, m, 100), "float32")],
        lambda x: relax.op.nn.rms_norm(x, relax.const(weight), axes=[-1], epsilon=1e-5),
    )
    x = rng.standard_normal((3, 11, 100), dtype=np.float32)
    exact = x.astype(np.float64)
    want = exact / np.sqrt((exact**2).mean(-1, keepdims=True) + 1e-5) * weight
    assert_close(run(x), want)


def test_group_norm(target, rng):
    n, h, w = symbols("nhw")
    gamma = rng.standard_normal(12, dtype=np.float32)
    beta = rng.standard_normal(12, dtype=np.float32)
    run = compile_graph(
        target,
        [((n, 12, h, w), "float32")],
        lambda x: relax.op.nn.group_norm(
            x,
            relax.const(gamma),
            relax.const(beta),
            num_groups=3,
            channel_axis=1,
            axes=[2, 3],
            epsilon=1e-5,
        ),
    )
    for shape in [(1, 12, 1, 3), (2, 12, 7, 9)]:
        x = rng.standard_normal(shape, dtype=np.float32)
        grouped = x.reshape(shape[0], 3, 4, *shape[2:])
        want = _normalise(grouped, (2, 3, 4), 1e-5).reshape(shape)
        assert_close(run(x), want * gamma[:, None, None] + beta[:, None, None], scale=4)


@pytest.mark.parametrize("name", ["argmax", "argmin"])
def test_positions_of_extrema(target, name, rng):
    n, m = symbols("nm")
    run = compile_graph(
        target, [((n, m), "float32")], lambda x: getattr(relax.op, name)(x, axis=-1)
    )
    for shape in [(1, 1), (3, 17), (40, 1000)]:
        x = rng.standard_normal(shape, dtype=np.float32)
        np.testing.assert_array_equal(run(x), getattr(np, name)(x, -1))


def test_cumulative_sum(target, rng):
    n, m = symbols("nm")
    run = compile_graph(target, [((n, m), "float32")], lambda x: relax.op.cumsum(x, axis=1))
    x = rng.standard_normal((3, 50), dtype=np.float32)
    assert_close(run(x), x.astype(np.float64).cumsum(1))


def test_a_softmax_whose_nans_become_zeros(target, rng):
    n, m = symbols("nm")

    def guarded(x):
        weights = relax.op.nn.softmax(x, axis=-1)
        return relax.op.where(relax.op.isnan(weights), relax.const(0, "float32"), weights)

    run = compile_graph(target, [((n, m), "float32")], guarded)
    assert set(run.rules.values()) == {"rows"}
    for rows, length in [(1, 1), (5, 37), (3, 1000)]:
        x = rng.standard_normal((rows, length), dtype=np.float32)
        x[0] = -np.inf
        want = special.softmax(x.astype(np.float64), axis=-1)
        assert_close(run(x), np.nan_to_num(want))
