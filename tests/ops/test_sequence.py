"""Sequences of tensors: what goes in comes out, also when the argument's memory is written to."""

from __future__ import annotations

import numpy as np
import pytest
import tvm_ffi

from moonpoly import _ffi_api  # noqa: F401  loads the library

NAMES = "construct at length append insert erase concat split"
construct, at, length, append, insert, erase, concat, split = (
    tvm_ffi.get_global_func(f"moonpoly.op.sequence_{name}") for name in NAMES.split()
)


def position(index):
    return np.array(index, np.int64)


def values(sequence):
    return [np.from_dlpack(each).tolist() for each in sequence]


def test_tensors_come_out_in_order():
    sequence = construct(np.float32([1, 2]), np.float32([3]))
    sequence = insert(sequence, np.float32([9]), position(-1))
    sequence = append(sequence, np.float32([]))
    assert values(sequence) == [[1, 2], [9], [3], []]
    assert np.from_dlpack(length(sequence)).item() == 4
    assert np.from_dlpack(at(sequence, position(-3))).tolist() == [9]
    assert values(erase(sequence, position(0))) == [[9], [3], []]
    assert values(sequence) == [[1, 2], [9], [3], []], "no operation changes its argument"


def test_a_sequence_owns_its_tensors():
    x = np.float32([1, 2])
    sequence = append(construct(x), x)
    x[:] = 0
    assert values(sequence) == [[1, 2], [1, 2]]


def test_positions_outside_are_refused():
    sequence = construct(np.float32([1]))
    for call in (at, erase):
        with pytest.raises(ValueError, match="position 1 of a sequence is not in -1 to 0"):
            call(sequence, position(1))


@pytest.mark.parametrize("axis", [0, 1, 2, -1])
def test_concat_joins_along_any_axis(rng, axis):
    parts = [rng.standard_normal((2, 3, 4)).astype(np.float32) for _ in range(3)]
    got = np.from_dlpack(concat(construct(*parts), axis, 0))
    np.testing.assert_array_equal(got, np.concatenate(parts, axis))
    got = np.from_dlpack(concat(construct(*parts), axis, 1))
    np.testing.assert_array_equal(got, np.stack(parts, axis))


def test_concat_refuses_what_does_not_fit():
    sequence = construct(np.zeros((2, 3), np.float32), np.zeros((3, 3), np.float32))
    with pytest.raises(ValueError, match=r"\(2, 3\) and \(3, 3\) along axis 1"):
        concat(sequence, 1, 0)
    with pytest.raises(ValueError, match="empty sequence"):
        concat(construct(), 0, 0)


@pytest.mark.parametrize("axis", [0, 1])
def test_split_cuts_into_equal_or_given_parts(rng, axis):
    x = rng.standard_normal((5, 5)).astype(np.float32)
    parts = split(x, np.array(2, np.int64), axis, 1)
    for got, want in zip(parts, np.split(x, [2, 4], axis), strict=True):
        np.testing.assert_array_equal(np.from_dlpack(got), want)
    parts = split(x, np.array([1, 0, 4], np.int64), axis, 1)
    for got, want in zip(parts, np.split(x, [1, 1], axis), strict=True):
        np.testing.assert_array_equal(np.from_dlpack(got), want)
    parts = split(x, np.array(1, np.int64), axis, 0)
    assert [each.shape for each in parts] == [(5,)] * 5
    with pytest.raises(ValueError, match="sum up to 3, the axis has 5"):
        split(x, np.array([1, 2], np.int64), axis, 1)
