"""Operators whose results' sizes depend on data, against NumPy."""

from __future__ import annotations

import numpy as np
import pytest
import tvm_ffi

from moonpoly import _ffi_api  # noqa: F401  loads the library

nonzero, compress, topk, unique = (
    tvm_ffi.get_global_func(f"moonpoly.op.{name}")
    for name in ("nonzero", "compress", "topk", "unique")
)
TYPES = ["float16", "float32", "float64", "int8", "uint8", "int16", "int32", "int64", "uint64"]
SHAPES = [(), (1,), (0,), (7,), (3, 5), (2, 0, 3), (2, 3, 17)]


def array(value):
    return np.from_dlpack(value)


@pytest.mark.parametrize("dtype", [*TYPES, "bool"])
def test_nonzero_finds_what_numpy_finds(rng, dtype):
    for shape in SHAPES[1:]:
        x = np.asarray(rng.integers(0, 2, shape)).astype(dtype)
        np.testing.assert_array_equal(array(nonzero(x)), np.stack(np.nonzero(x)))
    x = np.array([0.0, -0.0, np.nan, np.inf, 1e-45], np.float32)
    np.testing.assert_array_equal(array(nonzero(x)), [[2, 3, 4]])


def test_compress_keeps_what_numpy_keeps(rng):
    x = rng.standard_normal((3, 5, 4)).astype(np.float32)
    for axis in range(3):
        for length in (0, 1, x.shape[axis]):
            condition = rng.integers(0, 2, length).astype(bool)
            want = np.compress(condition, x, axis=axis)
            np.testing.assert_array_equal(array(compress(x, condition, axis)), want)


def test_compress_refuses_a_condition_beyond_the_axis():
    with pytest.raises(ValueError, match="element 3 of axis 0, which has 2"):
        compress(np.zeros((2, 2), np.float32), np.array([0, 0, 0, 1], bool), 0)


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("largest", [0, 1])
def test_topk_orders_values_and_breaks_ties_by_index(rng, dtype, largest):
    for shape, axis in [((7,), 0), ((3, 5), 0), ((3, 5), 1), ((2, 9, 4), 1)]:
        x = rng.integers(0, 5, shape).astype(dtype)
        keys = x.astype(np.float64) * (-1 if largest else 1)
        order = np.argsort(keys, axis=axis, kind="stable")
        for k in (0, 1, shape[axis]):
            values, indices = topk(x, np.array([k], np.int64), axis, largest)
            want = np.take(order, np.arange(k), axis=axis)
            np.testing.assert_array_equal(array(indices), want)
            np.testing.assert_array_equal(array(values), np.take_along_axis(x, want, axis))


def test_topk_refuses_more_than_there_are():
    with pytest.raises(ValueError, match="K is 4, expected 0 to 3"):
        topk(np.zeros(3, np.float32), np.array([4], np.int64), 0, 1)


def test_topk_takes_nan_for_the_largest():
    x = np.array([1, np.nan, np.inf, 3], np.float32)
    assert list(array(topk(x, np.array([2], np.int64), 0, 1)[1])) == [1, 2]
    assert list(array(topk(x, np.array([4], np.int64), 0, 0)[1])) == [0, 3, 2, 1]


@pytest.mark.parametrize("dtype", TYPES)
def test_unique_agrees_with_numpy(rng, dtype):
    for shape in [(0,), (1,), (19,), (6, 2), (8, 1, 2)]:
        x = rng.integers(0, 3, shape).astype(dtype)
        want = np.unique(x, return_index=True, return_inverse=True, return_counts=True, axis=0)
        for left, right in zip(unique(x, 1), want, strict=True):
            np.testing.assert_array_equal(array(left), right)
        order = np.argsort(want[1])
        values, first, inverse, counts = (array(each) for each in unique(x, 0))
        np.testing.assert_array_equal(first, want[1][order])
        np.testing.assert_array_equal(values, want[0][order])
        np.testing.assert_array_equal(values[inverse], x)
        np.testing.assert_array_equal(counts, want[3][order])
