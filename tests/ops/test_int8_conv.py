"""Convolutions of 8-bit integers are exact: types, zero points, strides, groups, every tile."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
import tvm_ffi

from moonpoly import _ffi_api  # noqa: F401  loads the library

conv_int8 = tvm_ffi.get_global_func("moonpoly.op.conv_int8")
force_int8_tile = tvm_ffi.get_global_func("moonpoly.op.force_int8_tile")
NUM_TILES = tvm_ffi.get_global_func("moonpoly.op.num_int8_tiles")()

# x shape, w shape, groups, strides, dilations, pads before, pads after.
CASES = [
    ((1, 1, 1, 1), (1, 1, 1, 1), 1, (1, 1), (1, 1), (0, 0), (0, 0)),
    ((2, 3, 7, 9), (8, 3, 3, 3), 1, (1, 1), (1, 1), (1, 1), (1, 1)),
    ((1, 5, 13, 33), (7, 5, 3, 2), 1, (2, 2), (1, 1), (1, 0), (0, 1)),
    ((1, 4, 12, 11), (6, 2, 2, 3), 2, (3, 3), (2, 1), (0, 2), (1, 0)),
    ((2, 6, 10, 70), (6, 1, 3, 3), 6, (1, 1), (1, 1), (1, 1), (1, 1)),
    ((1, 8, 2, 3), (130, 8, 1, 1), 1, (1, 1), (1, 1), (0, 0), (0, 0)),
    ((1, 3, 40), (4, 3, 5), 1, (2,), (3,), (2,), (1,)),
    ((1, 2, 5, 6, 7), (3, 2, 2, 3, 3), 1, (1, 2, 1), (1, 1, 2), (1, 0, 1), (0, 1, 1)),
    ((0, 3, 7, 9), (8, 3, 3, 3), 1, (1, 1), (1, 1), (1, 1), (1, 1)),
]


@pytest.fixture(params=range(NUM_TILES))
def tile(request):
    force_int8_tile(request.param)
    yield request.param
    force_int8_tile(-1)


def random(rng, dtype, shape):
    info = np.iinfo(dtype)
    return rng.integers(info.min, info.max + 1, shape).astype(dtype)


def exact(x, w, groups, strides, dilations, before, after):
    spatial = x.ndim - 2
    x = np.pad(x, [(0, 0), (0, 0), *zip(before, after, strict=True)])
    extents = [
        (x.shape[2 + d] - dilations[d] * (w.shape[2 + d] - 1) - 1) // strides[d] + 1
        for d in range(spatial)
    ]
    out = np.zeros((x.shape[0], w.shape[0], *extents), np.int64)
    rows = w.shape[0] // groups
    for group in range(groups):
        channels = slice(group * w.shape[1], (group + 1) * w.shape[1])
        filters = w[group * rows : (group + 1) * rows]
        for tap in itertools.product(*map(range, w.shape[2:])):
            window = tuple(
                slice(t * d, t * d + (e - 1) * s + 1, s)
                for t, d, e, s in zip(tap, dilations, extents, strides, strict=True)
            )
            pixels = x[(slice(None), channels, *window)]
            out[:, group * rows : (group + 1) * rows] += np.einsum(
                "nc...,mc->nm...", pixels, filters[(slice(None), slice(None), *tap)]
            )
    return out


@pytest.mark.parametrize("case", CASES, ids=lambda case: "x".join(map(str, case[0])))
@pytest.mark.parametrize(
    "types", [(np.uint8, np.int8), (np.uint8, np.uint8), (np.int8, np.int8), (np.int8, np.uint8)]
)
def test_a_convolution_is_exact(tile, rng, types, case):
    x_shape, w_shape, groups, *windows = case
    x, w = random(rng, types[0], x_shape), random(rng, types[1], w_shape)
    for per_channel in (None, False, True):
        x_zero, w_zero = np.zeros(1, types[0]), np.zeros(1, types[1])
        if per_channel is not None:
            x_zero = random(rng, types[0], (1,))
            w_zero = random(rng, types[1], (w_shape[0] if per_channel else 1,))
        shift = w_zero.astype(np.int64).reshape(-1, *[1] * (x.ndim - 1))
        want = exact(x.astype(np.int64) - int(x_zero[0]), w - shift, groups, *windows)
        got = np.full(want.shape, -1, np.int32)
        attrs = tvm_ffi.Shape([groups, *itertools.chain(*windows)])
        conv_int8(x, w, x_zero, w_zero, attrs, got)
        np.testing.assert_array_equal(got, want)


def test_a_result_of_the_wrong_size_is_refused():
    x, w = np.zeros((1, 2, 5, 5), np.uint8), np.zeros((3, 2, 3, 3), np.int8)
    attrs = tvm_ffi.Shape([1, 1, 1, 1, 1, 0, 0, 0, 0])
    with pytest.raises(ValueError, match="the result must have 3 elements along axis 2"):
        conv_int8(x, w, x.ravel()[:1], w.ravel()[:1], attrs, np.zeros((1, 3, 4, 3), np.int32))
    with pytest.raises(ValueError, match="W must have"):
        conv_int8(
            x,
            w[:, :1].copy(),
            x.ravel()[:1],
            w.ravel()[:1],
            attrs,
            np.zeros((1, 3, 3, 3), np.int32),
        )
