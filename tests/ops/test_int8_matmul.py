"""Products of 8-bit integers are exact: every type, zero point, shape and tile."""

from __future__ import annotations

import numpy as np
import pytest
import tvm_ffi

from moonpoly import _ffi_api  # noqa: F401  loads the library

matmul_int8 = tvm_ffi.get_global_func("moonpoly.op.matmul_int8")
matmul_int8_packed = tvm_ffi.get_global_func("moonpoly.op.matmul_int8_packed")
pack_int8 = tvm_ffi.get_global_func("moonpoly.op.pack_int8")
force_int8_tile = tvm_ffi.get_global_func("moonpoly.op.force_int8_tile")
NUM_TILES = tvm_ffi.get_global_func("moonpoly.op.num_int8_tiles")()

TYPES = [(np.uint8, np.int8), (np.uint8, np.uint8), (np.int8, np.int8), (np.int8, np.uint8)]
SHAPES = [(1, 1, 1), (5, 7, 3), (6, 64, 4), (7, 65, 129), (97, 33, 61), (0, 5, 3), (4, 0, 3)]


@pytest.fixture(params=range(NUM_TILES))
def tile(request):
    force_int8_tile(request.param)
    yield request.param
    force_int8_tile(-1)


def random(rng, dtype, shape):
    info = np.iinfo(dtype)
    return rng.integers(info.min, info.max + 1, shape).astype(dtype)


def exact(a, b, a_zero, b_zero):
    return (a.astype(np.int64) - a_zero.astype(np.int64)) @ (
        b.astype(np.int64) - b_zero.astype(np.int64)
    )


def pack(b):
    k, n = b.shape
    panels = np.empty((-(-n // 16), -(-k // 4), 16, 4), np.int8)
    sums = np.empty((-(-n // 16), 16), np.int32)
    pack_int8(b, panels, sums)
    return panels, sums


@pytest.mark.parametrize("zeros", ["none", "scalar", "vector"])
@pytest.mark.parametrize("types", TYPES)
def test_a_product_is_exact(tile, rng, types, zeros):
    for m, n, k in [*SHAPES, (3, 5, 0)]:
        a, b = random(rng, types[0], (m, k)), random(rng, types[1], (k, n))
        a_zero, b_zero = np.zeros(1, types[0]), np.zeros(1, types[1])
        if zeros != "none":
            a_zero = random(rng, types[0], (m, 1) if zeros == "vector" else (1,))
            b_zero = random(rng, types[1], (n,) if zeros == "vector" else (1,))
        want = exact(a, b, a_zero, b_zero)
        got = np.full((m, n), -1, np.int32)
        matmul_int8(a, b, a_zero, b_zero, got)
        np.testing.assert_array_equal(got, want)
        got[:] = -1
        matmul_int8_packed(a, *pack(b), a_zero, b_zero, got)
        np.testing.assert_array_equal(got, want)


def test_extreme_values_do_not_saturate(tile):
    a = np.full((3, 1001), 255, np.uint8)
    for value in (-128, 127):
        b = np.full((1001, 17), value, np.int8)
        got = np.empty((3, 17), np.int32)
        matmul_int8(a, b, np.zeros(1, np.uint8), np.zeros(1, np.int8), got)
        np.testing.assert_array_equal(got, np.full((3, 17), 255 * value * 1001))


def test_matrices_of_a_batch_have_their_own_zero_points(rng):
    a, b = random(rng, np.uint8, (2, 3, 5, 9)), random(rng, np.int8, (2, 3, 9, 18))
    a_zero, b_zero = random(rng, np.uint8, (2, 3, 5, 1)), random(rng, np.int8, (2, 3, 1, 18))
    got = np.empty((2, 3, 5, 18), np.int32)
    matmul_int8(a, b, a_zero, b_zero, got)
    np.testing.assert_array_equal(got, exact(a, b, a_zero, b_zero))


def test_one_matrix_serves_a_batch(rng):
    a, b = random(rng, np.int8, (2, 3, 5, 9)), random(rng, np.int8, (9, 18))
    a_zero, b_zero = random(rng, np.int8, (1,)), random(rng, np.int8, (18,))
    got = np.empty((2, 3, 5, 18), np.int32)
    matmul_int8(a, b, a_zero, b_zero, got)
    np.testing.assert_array_equal(got, exact(a, b, a_zero, b_zero))


@pytest.mark.parametrize(
    ("change", "error"),
    [
        ({"a": np.zeros((2, 4), np.uint8)}, ValueError),
        ({"a": np.zeros((2, 3), np.float32)}, TypeError),
        ({"a_zero": np.zeros(1, np.int8)}, TypeError),
        ({"b_zero": np.zeros(4, np.int8)}, ValueError),
        ({"out": np.zeros((2, 4), np.int32)}, ValueError),
        ({"out": np.zeros((2, 5), np.float32)}, TypeError),
    ],
)
def test_wrong_operands_are_refused(change, error):
    operands = {
        "a": np.zeros((2, 3), np.uint8),
        "b": np.zeros((3, 5), np.int8),
        "a_zero": np.zeros(1, np.uint8),
        "b_zero": np.zeros(1, np.int8),
        "out": np.zeros((2, 5), np.int32),
    }
    with pytest.raises(error):
        matmul_int8(*{**operands, **change}.values())
