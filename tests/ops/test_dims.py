"""Sizes that are found at run time, against Python's own slices and ranges."""

from __future__ import annotations

import numpy as np
import pytest
import tvm_ffi

from moonpoly import _ffi_api  # noqa: F401  loads the library

slice_bounds, range_length, reshape_dims = (
    tvm_ffi.get_global_func(f"moonpoly.op.{name}")
    for name in ("slice_bounds", "range_length", "reshape_dims")
)
FAR = 2**62


def int64(values):
    return np.asarray(values, np.int64)


def test_slices_have_the_bounds_that_python_gives_them(rng):
    for _ in range(1000):
        rank = int(rng.integers(1, 5))
        shape = rng.integers(0, 7, rank)
        axes = rng.permutation(rank)[: rng.integers(0, rank + 1)]
        starts = rng.integers(-10, 10, len(axes))
        ends = rng.choice([-FAR, -10, -2, 0, 3, 9, FAR], len(axes))
        steps = rng.choice([-3, -1, 1, 2, 5], len(axes))
        found = list(
            slice_bounds(
                tvm_ffi.Shape(shape.tolist()),
                *(int64(each) for each in (starts, ends, axes, steps)),
            )
        )
        index = [slice(None)] * rank
        for axis, start, end, step in zip(axes, starts, ends, steps, strict=True):
            index[axis] = slice(int(start), int(end), int(step))
        positions = [range(size)[each] for size, each in zip(shape, index, strict=True)]
        assert found[2 * rank :] == [len(each) for each in positions]
        for axis, each in enumerate(positions):
            if len(each) > 0:
                assert (found[axis], found[rank + axis]) == (each.start, each.step)


def test_ranges_have_the_length_that_python_gives_them(rng):
    for first, last, step in rng.integers(-9, 9, (500, 3)).tolist():
        if step != 0:
            assert list(range_length(tvm_ffi.Shape([first, last, step]))) == [
                len(range(first, last, step))
            ]


@pytest.mark.parametrize(
    ("shape", "wanted", "allow_zero", "found"),
    [
        ([2, 3, 4], [4, -1], 0, [4, 6]),
        ([2, 3, 4], [0, 0, -1], 0, [2, 3, 4]),
        ([0, 3], [3, 0], 1, [3, 0]),
        ([0, 3], [-1, 3], 0, [0, 3]),
        ([], [1, -1], 0, [1, 1]),
        ([1], [], 0, []),
    ],
)
def test_reshape_resolves_zeros_and_the_open_size(shape, wanted, allow_zero, found):
    assert list(reshape_dims(tvm_ffi.Shape(shape), int64(wanted), allow_zero)) == found


@pytest.mark.parametrize("wanted", [[5, -1], [-1, -1], [-2, 12], [7]])
def test_reshape_refuses_what_does_not_fit(wanted):
    with pytest.raises(ValueError, match="Mismatched dimensions: can't reshape"):
        reshape_dims(tvm_ffi.Shape([2, 3, 4]), int64(wanted), 0)
