"""What compiled models call: convolution, products with permuted operands, fused epilogues."""

from __future__ import annotations

import itertools
import json

import numpy as np
import pytest
import tvm_ffi
from runtime.guarded import guarded
from tolerances import OPERATOR_REL, operator_error

from moonpoly import _ffi_api

TENSOR = tvm_ffi.from_dlpack
_models = itertools.count(1_000_001)


def register(kernels, *sites):
    """Register a model of these sites; return the id of its first."""
    first = next(_models) << 16
    metadata = {
        "schema": 1,
        "artifacts": {"gemm_float32": kernels.manifest},
        "sites": [
            {"id": first + i, "artifact": "gemm_float32", "node": f"node {i}", "epilogue": None}
            | site
            for i, site in enumerate(sites)
        ],
    }
    _ffi_api.register_model(json.dumps(metadata), kernels.library)
    return first


def conv_site(strides, pads, dilations, groups):
    return {
        "op": "conv2d",
        "strides": strides,
        "pads": pads,
        "dilations": dilations,
        "groups": groups,
    }


def conv_exact(x, w, strides, pads, dilations, groups):
    """Return the convolution and the size of what was summed, in float64."""
    top, left, bottom, right = pads
    padded = np.pad(x.astype(np.float64), ((0, 0), (0, 0), (top, bottom), (left, right)))
    out_channels, channels, kernel_h, kernel_w = w.shape
    out_h = (padded.shape[2] - dilations[0] * (kernel_h - 1) - 1) // strides[0] + 1
    out_w = (padded.shape[3] - dilations[1] * (kernel_w - 1) - 1) // strides[1] + 1
    exact = np.zeros((x.shape[0], out_channels, out_h, out_w))
    size = np.zeros_like(exact)
    each = out_channels // groups
    for g, r, s in itertools.product(range(groups), range(kernel_h), range(kernel_w)):
        rows = slice(r * dilations[0], r * dilations[0] + (out_h - 1) * strides[0] + 1, strides[0])
        cols = slice(s * dilations[1], s * dilations[1] + (out_w - 1) * strides[1] + 1, strides[1])
        seen = padded[:, g * channels : (g + 1) * channels, rows, cols]
        weights = w[g * each : (g + 1) * each, :, r, s].astype(np.float64)
        exact[:, g * each : (g + 1) * each] += np.einsum("kc,ncpq->nkpq", weights, seen)
        size[:, g * each : (g + 1) * each] += np.einsum(
            "kc,ncpq->nkpq", np.abs(weights), np.abs(seen)
        )
    return exact, size


CONVS = [
    # x, out channels, kernel, strides, pads, dilations, groups
    ((1, 3, 33, 30), 16, (7, 7), (2, 2), (3, 3, 3, 3), (1, 1), 1),
    ((2, 8, 14, 14), 20, (3, 3), (1, 1), (1, 1, 1, 1), (1, 1), 1),
    ((1, 40, 7, 7), 33, (3, 3), (1, 1), (1, 1, 1, 1), (1, 1), 1),
    ((1, 16, 9, 11), 8, (1, 1), (1, 1), (0, 0, 0, 0), (1, 1), 1),
    ((2, 16, 9, 11), 8, (1, 1), (2, 2), (0, 0, 0, 0), (1, 1), 1),
    ((1, 12, 13, 10), 24, (3, 2), (1, 2), (0, 1, 2, 0), (2, 1), 4),
    ((1, 6, 10, 10), 6, (3, 3), (1, 1), (1, 1, 1, 1), (1, 1), 6),
    ((1, 4, 40, 50), 10, (5, 5), (3, 3), (2, 2, 2, 2), (1, 1), 1),
    ((3, 32, 20, 20), 70, (3, 3), (2, 2), (1, 1, 1, 1), (1, 1), 2),
    ((1, 3, 5, 5), 4, (3, 3), (1, 1), (3, 3, 3, 3), (1, 1), 1),
    ((1, 8, 30, 1), 5, (3, 1), (1, 1), (1, 0, 1, 0), (1, 1), 1),
    ((1, 8, 1, 100), 5, (1, 9), (1, 1), (0, 4, 0, 4), (1, 1), 1),
    ((1, 200, 5, 5), 3, (3, 3), (2, 2), (1, 1, 1, 1), (1, 1), 1),
    # Small images, which are put side by side: as they are, gathered, and too many for one go.
    ((5, 12, 7, 7), 40, (1, 1), (1, 1), (0, 0, 0, 0), (1, 1), 1),
    ((3, 9, 7, 7), 11, (3, 3), (1, 1), (1, 1, 1, 1), (1, 1), 1),
    ((4, 6, 9, 11), 8, (3, 3), (2, 2), (1, 1, 1, 1), (1, 1), 1),
    ((21, 2, 7, 7), 1100, (1, 1), (1, 1), (0, 0, 0, 0), (1, 1), 1),
    ((6, 8, 1, 1), 10, (1, 1), (1, 1), (0, 0, 0, 0), (1, 1), 1),
    # A window of more than 64 positions; more columns than are gathered at once.
    ((1, 3, 30, 75), 4, (9, 9), (1, 1), (4, 4, 4, 4), (1, 1), 1),
    ((1, 5, 61, 131), 9, (3, 3), (2, 2), (1, 1, 1, 1), (1, 1), 1),
    # Few rows and long sums, which are added up in parts; columns enough for several blocks.
    ((2, 60, 9, 21), 5, (3, 3), (1, 1), (1, 1, 1, 1), (1, 1), 1),
    ((1, 1, 1, 9000), 1, (1, 259), (1, 1), (0, 0, 0, 0), (1, 1), 1),
    ((1, 64, 23, 19), 48, (3, 3), (2, 2), (1, 1, 1, 1), (1, 1), 1),
]


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize(
    ("shape", "out_channels", "kernel", "strides", "pads", "dilations", "groups"), CONVS
)
def test_conv2d(
    kernels, rng, shape, out_channels, kernel, strides, pads, dilations, groups, threads
):
    _ffi_api.set_num_threads(threads)
    attributes = (strides, pads, dilations, groups)
    x = guarded(shape)
    w = guarded((out_channels, shape[1] // groups, *kernel))
    x[...] = rng.standard_normal(x.shape, dtype=np.float32)
    w[...] = rng.standard_normal(w.shape, dtype=np.float32)
    exact, size = conv_exact(x, w, *attributes)
    y = guarded(exact.shape)
    y.fill(np.nan)
    site = register(kernels, conv_site(*attributes))
    tvm_ffi.get_global_func("moonpoly.conv2d")(site, TENSOR(x), TENSOR(w), TENSOR(y))
    assert np.all(np.abs(y - exact) <= OPERATOR_REL["float32"] * size)


def test_long_sums_of_few_rows_are_rounded_as_short_ones(kernels, rng):
    attributes = ((1, 1), (0, 0, 0, 0), (1, 1), 1)
    x = rng.standard_normal((1, 1, 1, 4000), dtype=np.float32)
    w = rng.standard_normal((3, 1, 1, 1024), dtype=np.float32)
    exact, _ = conv_exact(x, w, *attributes)
    y = np.empty(exact.shape, np.float32)
    site = register(kernels, conv_site(*attributes))
    tvm_ffi.get_global_func("moonpoly.conv2d")(site, TENSOR(x), TENSOR(w), TENSOR(y))
    # One sum of 1024 terms that is rounded at each, as a comparison.
    windows = np.lib.stride_tricks.sliding_window_view(x[0, 0, 0], 1024)
    chain = np.zeros(exact.shape[1:], np.float32)
    for k in range(1024):
        chain += w[:, 0, 0, k, None, None] * windows[None, None, :, k]
    error, of_chain = (np.sqrt(np.mean((got - exact) ** 2)) for got in (y, chain))
    assert error < 0.6 * of_chain


@pytest.mark.parametrize("in_place", [False, True])
@pytest.mark.parametrize(("channels", "side"), [(5, 1), (0, 1), (700, 1), (40, 3)])
def test_conv2d_starts_from_the_addend(kernels, rng, channels, side, in_place):
    attributes = ((1, 1), (side // 2,) * 4, (1, 1), 1)
    x, w = guarded((2, channels, 9, 11)), guarded((7, channels, side, side))
    addend, y = guarded((2, 7, 9, 11)), guarded((2, 7, 9, 11))
    for array in (x, w, addend):
        array[...] = rng.standard_normal(array.shape, dtype=np.float32)
    y.fill(np.nan)
    exact, size = conv_exact(x, w, *attributes)
    exact, size = exact + addend, size + np.abs(addend)
    out = addend if in_place else y
    site = register(kernels, conv_site(*attributes) | {"addend": True})
    conv2d = tvm_ffi.get_global_func("moonpoly.conv2d")
    conv2d(site, TENSOR(x), TENSOR(w), TENSOR(addend), TENSOR(out))
    assert np.all(np.abs(out - exact) <= OPERATOR_REL["float32"] * size)
    with pytest.raises(ValueError, match="addend must have 9 elements"):
        other = np.zeros((2, 7, 8, 11), np.float32)
        conv2d(site, TENSOR(x), TENSOR(w), TENSOR(other), TENSOR(out))


def test_conv2d_refuses_another_output_shape(kernels):
    site = register(kernels, conv_site((1, 1), (0, 0, 0, 0), (1, 1), 1))
    x, w, y = (np.zeros(s, np.float32) for s in ((1, 4, 8, 8), (2, 4, 3, 3), (1, 2, 8, 8)))
    with pytest.raises(ValueError, match="Y must have 6 elements"):
        tvm_ffi.get_global_func("moonpoly.conv2d")(site, TENSOR(x), TENSOR(w), TENSOR(y))


def test_operands_are_read_through_their_axes(kernels, rng):
    """Attention's heads: (batch, rows, heads, k) is read as (batch, heads, rows, k)."""
    q = rng.standard_normal((2, 19, 3, 8), dtype=np.float32)
    k = rng.standard_normal((2, 23, 3, 8), dtype=np.float32)
    site = register(
        kernels,
        {
            "op": "matmul",
            "trans_a": False,
            "b": "transposed",
            "n": None,
            "a_axes": [0, 2, 1, 3],
            "b_axes": [0, 2, 1, 3],
        },
    )
    c = np.full((2, 3, 19, 23), np.nan, dtype=np.float32)
    tvm_ffi.get_global_func("moonpoly.matmul")(site, TENSOR(q), TENSOR(k), TENSOR(c))
    a, b = q.transpose(0, 2, 1, 3), k.transpose(0, 2, 3, 1)
    assert operator_error(c, a, b) <= OPERATOR_REL["float32"]


def test_unknown_sites_are_refused():
    zero = TENSOR(np.zeros((1, 1), np.float32))
    with pytest.raises(ValueError, match="unknown call site"):
        tvm_ffi.get_global_func("moonpoly.matmul")(12345 << 16, zero, zero, zero)


def test_a_model_is_registered_once(kernels):
    first = register(kernels, conv_site((1, 1), (0, 0, 0, 0), (1, 1), 1))
    damaged = {"schema": 1, "artifacts": {}, "sites": [{"id": first}]}
    _ffi_api.register_model(json.dumps(damaged), kernels.library)


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"op": "fft"}, "must be matmul or conv2d"),
        ({"strides": [0, 1]}, "2 positive strides"),
        ({"artifact": "gemm_float64"}, "which the model lacks"),
    ],
)
def test_damaged_sites_are_refused(kernels, change, says):
    with pytest.raises(ValueError, match=says):
        register(kernels, conv_site((1, 1), (0, 0, 0, 0), (1, 1), 1) | change)
