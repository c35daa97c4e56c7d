"""Maps: chains, broadcasts, casts, gathers, slices and transpositions, at awkward shapes."""

from __future__ import annotations

import numpy as np
import pytest
from schedule.conftest import assert_close, compile_graph, symbols
from scipy import special
from tvm import relax

SIZES = [0, 1, 7, 8, 9, 15, 16, 17, 31, 97, 2049]


def test_chain_on_one_shape(target, rng):
    n, m = symbols("nm")
    run = compile_graph(
        target,
        [((n, m), "float32"), ((n, m), "float32")],
        lambda x, y: relax.op.multiply(relax.op.add(x, y), relax.const(0.3, "float32")),
    )
    for size in SIZES:
        x = rng.standard_normal((3, size), dtype=np.float32)
        y = rng.standard_normal((3, size), dtype=np.float32)
        assert_close(run(x, y), (x.astype(np.float64) + y) * 0.3)


def test_many_rows_are_shared_among_threads(target, rng):
    n, m = symbols("nm")
    run = compile_graph(
        target,
        [((n, m, 384), "float32"), ((1, m, 384), "float32")],
        lambda x, y: relax.op.add(x, y),
    )
    for rows, columns in [(1, 1), (1, 400), (17, 37), (64, 3)]:
        x = rng.standard_normal((rows, columns, 384), dtype=np.float32)
        y = rng.standard_normal((1, columns, 384), dtype=np.float32)
        assert_close(run(x, y), x.astype(np.float64) + y)


@pytest.mark.parametrize(
    ("name", "exact"),
    [
        ("exp", np.exp),
        ("tanh", np.tanh),
        ("erf", special.erf),
        ("sigmoid", special.expit),
        ("log", lambda x: np.log(np.abs(x))),
        ("rsqrt", lambda x: 1 / np.sqrt(np.abs(x))),
        ("sqrt", lambda x: np.sqrt(np.abs(x))),
    ],
)
def test_functions_are_exact_to_a_few_ulp(target, name, exact, rng):
    (n,) = symbols("n")
    operators = {"erf": relax.op.erf, "sigmoid": relax.op.sigmoid}
    function = operators.get(name) or getattr(relax.op, name)
    positive = name in ("log", "rsqrt", "sqrt")
    run = compile_graph(
        target,
        [((n,), "float32")],
        lambda x: function(relax.op.abs(x)) if positive else function(x),
    )
    x = np.concatenate(
        [
            rng.standard_normal(5000, dtype=np.float32) * 4,
            np.float32(10) ** rng.uniform(-30, 1.5, 5000).astype(np.float32),
            np.linspace(-80, 80, 4001, dtype=np.float32),
        ]
    )
    x = x[x != 0]
    want = exact(x.astype(np.float64))
    keep = np.abs(want) > np.finfo(np.float32).tiny
    error = np.abs(run(x) - want)[keep] / np.abs(want)[keep]
    assert error.max() <= 2e-6


@pytest.mark.parametrize("name", ["exp", "tanh", "erf", "sigmoid", "log"])
def test_functions_keep_infinities_and_nans(target, name):
    (n,) = symbols("n")
    operators = {"erf": relax.op.erf, "sigmoid": relax.op.sigmoid}
    function = operators.get(name) or getattr(relax.op, name)
    run = compile_graph(target, [((n,), "float32")], lambda x: function(x))
    x = np.array([np.inf, -np.inf, np.nan, 0.0, -0.0, 1e38, -1e38, 1e-40], dtype=np.float32)
    exact = {"erf": special.erf, "sigmoid": special.expit}.get(name) or getattr(np, name)
    with np.errstate(all="ignore"):
        want = exact(x.astype(np.float64)).astype(np.float32)
    np.testing.assert_allclose(run(x), want, rtol=2e-6, atol=1e-38)


def test_exp_reaches_subnormal_results(target):
    (n,) = symbols("n")
    run = compile_graph(target, [((n,), "float32")], relax.op.exp)
    x = np.linspace(-104, -86, 1000, dtype=np.float32)
    want = np.exp(x.astype(np.float64))
    assert np.max(np.abs(run(x) - want)) <= 3e-45 + 2e-7 * np.max(want)


def test_gelu(target, rng):
    n, m = symbols("nm")
    run = compile_graph(target, [((n, m), "float32")], relax.op.nn.gelu)
    x = rng.standard_normal((5, 101), dtype=np.float32) * 3
    exact = x.astype(np.float64)
    assert_close(run(x), 0.5 * exact * (1 + special.erf(exact / np.sqrt(2))))


def test_casts_and_conditions(target, rng):
    n, m = symbols("nm")
    run = compile_graph(
        target,
        [((n, m), "int64"), ((n, m), "float32")],
        lambda i, x: relax.op.where(
            relax.op.less(i, relax.const(0, "int64")),
            relax.op.astype(i, "float32"),
            x,
        ),
    )
    for size in SIZES:
        i = rng.integers(-5, 5, (2, size))
        x = rng.standard_normal((2, size), dtype=np.float32)
        assert_close(run(i, x), np.where(i < 0, i.astype(np.float64), x))


def test_take_concat_slice_and_pad(target, rng):
    n, m = symbols("nm")
    table = rng.standard_normal((50, 37), dtype=np.float32)
    take = compile_graph(
        target,
        [((n, m), "int64")],
        lambda i: relax.op.take(relax.const(table), i, axis=0, mode="fast"),
    )
    concat = compile_graph(
        target,
        [((n, 20), "float32"), ((n, 13), "float32")],
        lambda x, y: relax.op.concat([x, y], axis=1),
    )
    flip = compile_graph(
        target,
        [((n, m), "float32")],
        lambda x: relax.op.nn.pad(x, [1, 2, 3, 4]),
    )
    for rows, columns in [(1, 1), (3, 17), (5, 64)]:
        i = rng.integers(0, 50, (rows, columns))
        assert_close(take(i), table[i].astype(np.float64))
        x = rng.standard_normal((rows, 20), dtype=np.float32)
        y = rng.standard_normal((rows, 13), dtype=np.float32)
        assert_close(concat(x, y), np.concatenate([x, y], 1).astype(np.float64))
        z = rng.standard_normal((rows, columns), dtype=np.float32)
        assert_close(flip(z), np.pad(z, [(1, 2), (3, 4)]).astype(np.float64))


@pytest.mark.parametrize("axes", [(0, 2, 1), (2, 0, 1), (1, 0, 2), (2, 1, 0)])
def test_transpositions(target, axes, rng):
    n, m, k = symbols("nmk")
    run = compile_graph(
        target, [((n, m, k), "float32")], lambda x: relax.op.permute_dims(x, list(axes))
    )
    for shape in [(1, 1, 1), (2, 3, 5), (1, 16, 16), (3, 17, 33), (2, 64, 15), (0, 4, 4)]:
        x = rng.standard_normal(shape, dtype=np.float32)
        assert_close(run(x), x.transpose(axes).astype(np.float64))


def test_transposition_with_a_residual(target, rng):
    n, h, w = symbols("nhw")
    run = compile_graph(
        target,
        [((n, h, w, 24), "float32"), ((n, 24, h, w), "float32"), ((24, 1, 1), "float32")],
        lambda x, y, scale: relax.op.add(
            relax.op.multiply(relax.op.permute_dims(x, [0, 3, 1, 2]), scale), y
        ),
    )
    for shape in [(1, 1, 1), (2, 7, 7), (1, 14, 9)]:
        x = rng.standard_normal((*shape, 24), dtype=np.float32)
        y = rng.standard_normal((shape[0], 24, *shape[1:]), dtype=np.float32)
        scale = rng.standard_normal((24, 1, 1), dtype=np.float32)
        assert_close(run(x, y, scale), x.transpose(0, 3, 1, 2) * scale.astype(np.float64) + y)


@pytest.mark.parametrize("method", ["nearest_neighbor", "linear"])
def test_resize(target, method, rng):
    n, h, w = symbols("nhw")
    run = compile_graph(
        target,
        [((n, 3, h, w), "float32")],
        lambda x: relax.op.image.resize2d(
            x,
            (h * 2, w * 2),
            layout="NCHW",
            method=method,
            coordinate_transformation_mode="asymmetric",
            rounding_method="floor",
        ),
    )
    for shape in [(1, 3, 1, 1), (2, 3, 5, 17)]:
        x = rng.standard_normal(shape, dtype=np.float32)
        rows, columns = np.arange(shape[2] * 2) / 2, np.arange(shape[3] * 2) / 2
        if method == "nearest_neighbor":
            want = x[:, :, rows.astype(int)][:, :, :, columns.astype(int)].astype(np.float64)
        else:
            want = _interpolate(_interpolate(x.astype(np.float64), rows, 2), columns, 3)
        assert_close(run(x), want)


def _interpolate(x: np.ndarray, places: np.ndarray, axis: int) -> np.ndarray:
    low = np.floor(places).astype(int)
    high = np.minimum(low + 1, x.shape[axis] - 1)
    shape = [1] * x.ndim
    shape[axis] = -1
    weight = (places - low).reshape(shape)
    return x.take(low, axis) * (1 - weight) + x.take(high, axis) * weight
