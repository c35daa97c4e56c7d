"""The stand-alone product against float64: any shape, layout and number of threads."""

from __future__ import annotations

import threading

import numpy as np
import pytest
import tvm_ffi
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from runtime.guarded import guarded
from tolerances import OPERATOR_REL, operator_error

from moonpoly import _ffi_api

TENSOR = tvm_ffi.from_dlpack
PACKED, ROW, TRANSPOSED = 0, 1, 2
AWKWARD = [
    (1, 1, 1),
    (1, 1, 4099),
    (1, 257, 31),
    (13, 15, 17),
    (14, 32, 64),
    (15, 33, 65),
    (29, 47, 5),
    (97, 2, 350),
    (5, 3, 1200),
    (200, 7, 513),
    (3, 1009, 127),
    (128, 131, 1031),
    (13, 500, 600),
    (64, 64, 1),
    (2, 8, 20000),
]


def right_operand(kernels, b, mode):
    if mode == PACKED:
        return _ffi_api.pack_b(TENSOR(np.ascontiguousarray(b)), False, kernels.panel)
    return TENSOR(b) if mode == ROW else TENSOR(np.ascontiguousarray(b.T))


def product(kernels, a, b, mode, trans_a=False):
    c = np.full((*a.shape[:-2], a.shape[-2], b.shape[-1]), np.nan, dtype=np.float32)
    left = np.ascontiguousarray(np.swapaxes(a, -1, -2)) if trans_a else a
    _ffi_api.gemm(
        kernels.handle, TENSOR(left), right_operand(kernels, b, mode), TENSOR(c), mode, trans_a
    )
    return c


def draw(rng, *shape):
    return rng.standard_normal(shape, dtype=np.float32)


@pytest.mark.parametrize("mode", [PACKED, ROW, TRANSPOSED])
@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize(("m", "n", "k"), AWKWARD)
def test_awkward_shapes(kernels, rng, m, n, k, threads, mode):
    _ffi_api.set_num_threads(threads)
    a, b = draw(rng, m, k), draw(rng, k, n)
    for trans_a in (False, True):
        got = product(kernels, a, b, mode, trans_a)
        assert operator_error(got, a, b) <= OPERATOR_REL["float32"]


@pytest.mark.parametrize("n", [3, 20, 75])
def test_rows_of_a_beyond_the_second_cache(kernels, rng, n):
    _ffi_api.set_num_threads(1)
    k = 77
    m = _ffi_api.cache_bytes()[1] // (4 * k) + 101
    # In one piece they are fetched a tile ahead, with a gap between them they are not.
    whole, b = draw(rng, m, k), draw(rng, k, n)
    for a in (whole, draw(rng, m, k + 3)[:, :k]):
        c = np.full((m, n), np.nan, dtype=np.float32)
        _ffi_api.gemm(kernels.handle, TENSOR(a), TENSOR(b), TENSOR(c), ROW, False)
        assert operator_error(c, a, b) <= OPERATOR_REL["float32"]


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    m=st.integers(0, 150),
    n=st.integers(0, 150),
    k=st.integers(0, 300),
    mode=st.sampled_from([PACKED, ROW, TRANSPOSED]),
    trans_a=st.booleans(),
    threads=st.integers(1, 2),
    seed=st.integers(0, 2**31),
)
def test_any_shape(kernels, m, n, k, mode, trans_a, threads, seed):
    _ffi_api.set_num_threads(threads)
    rng = np.random.default_rng(seed)
    a, b = draw(rng, m, k), draw(rng, k, n)
    assert operator_error(product(kernels, a, b, mode, trans_a), a, b) <= OPERATOR_REL["float32"]


@settings(max_examples=60, deadline=None)
@given(
    m=st.integers(1, 60),
    n=st.integers(1, 60),
    k=st.integers(1, 80),
    more=st.tuples(*[st.integers(0, 9)] * 3),
    seed=st.integers(0, 2**31),
)
def test_rows_may_be_apart(kernels, m, n, k, more, seed):
    rng = np.random.default_rng(seed)
    a, b = draw(rng, m, k + more[0])[:, :k], draw(rng, k, n + more[1])[:, :n]
    whole = np.full((m, n + more[2]), 7.0, dtype=np.float32)
    c = whole[:, :n]
    _ffi_api.gemm(kernels.handle, TENSOR(a), TENSOR(b), TENSOR(c), ROW, False)
    assert operator_error(c, a, b) <= OPERATOR_REL["float32"]
    assert np.all(whole[:, n:] == 7.0)


@pytest.mark.parametrize("at_end", [True, False])
@pytest.mark.parametrize("mode", [ROW, TRANSPOSED])
@pytest.mark.parametrize(("m", "n", "k"), AWKWARD)
def test_nothing_outside_the_operands_is_touched(kernels, rng, m, n, k, mode, at_end):
    a, c = guarded((m, k), at_end=at_end), guarded((m, n), at_end=at_end)
    b = guarded((k, n) if mode == ROW else (n, k), at_end=at_end)
    a[...], b[...] = draw(rng, m, k), draw(rng, *b.shape)
    for threads in (1, 2):
        _ffi_api.set_num_threads(threads)
        c.fill(np.nan)
        _ffi_api.gemm(kernels.handle, TENSOR(a), TENSOR(b), TENSOR(c), mode, False)
        assert operator_error(c, a, b if mode == ROW else b.T) <= OPERATOR_REL["float32"]


@pytest.mark.parametrize(
    ("a_batch", "b_batch"),
    [((3,), (3,)), ((2, 1), (3,)), ((4,), (1,)), ((2, 3), (1, 3)), ((5,), ())],
)
@pytest.mark.parametrize("mode", [ROW, TRANSPOSED])
def test_batches_broadcast(kernels, rng, a_batch, b_batch, mode):
    a, b = draw(rng, *a_batch, 9, 20), draw(rng, *b_batch, 20, 35)
    batch = np.broadcast_shapes(a_batch, b_batch)
    c = np.full((*batch, 9, 35), np.nan, dtype=np.float32)
    right = b if mode == ROW else np.ascontiguousarray(np.swapaxes(b, -1, -2))
    _ffi_api.gemm(kernels.handle, TENSOR(a), TENSOR(right), TENSOR(c), mode, False)
    assert operator_error(c, a, b) <= OPERATOR_REL["float32"]


def test_packing_pads_with_zeros(kernels, rng):
    b = draw(rng, 5, kernels.panel + 3)
    packed = np.from_dlpack(_ffi_api.pack_b(TENSOR(b), False, kernels.panel))
    assert packed.shape == (2, 5, kernels.panel)
    assert np.array_equal(packed[1][:, :3], b[:, kernels.panel :])
    assert not packed[1][:, 3:].any()
    again = np.from_dlpack(_ffi_api.pack_b(TENSOR(np.ascontiguousarray(b.T)), True, kernels.panel))
    assert np.array_equal(packed, again)


def test_many_threads_at_once(kernels):
    failures: list[str] = []

    def work(seed):
        rng = np.random.default_rng(seed)
        for _ in range(40):
            m, n, k = (int(x) for x in rng.integers(1, 90, 3))
            a, b = draw(rng, m, k), draw(rng, k, n)
            error = operator_error(product(kernels, a, b, int(rng.integers(0, 3))), a, b)
            if not error <= OPERATOR_REL["float32"]:
                failures.append(f"{m}x{n}x{k}: {error}")

    workers = [threading.Thread(target=work, args=(seed,)) for seed in range(8)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert not failures


def test_the_same_call_gives_the_same_bits(kernels, rng):
    a, b = draw(rng, 32, 30000), draw(rng, 30000, 16)
    first = product(kernels, a, b, ROW)
    assert all(np.array_equal(first, product(kernels, a, b, ROW)) for _ in range(5))


@pytest.mark.parametrize(
    ("change", "error", "says"),
    [
        ({"a": np.zeros((4, 6), np.float64)}, TypeError, "A must be float32"),
        ({"b": np.zeros((6, 5), np.int32)}, TypeError, "B must be float32"),
        ({"a": np.zeros((3, 6), np.float32)}, ValueError, "A must have 4 elements"),
        ({"b": np.zeros((7, 5), np.float32)}, ValueError, "B must have 6 elements"),
        ({"a": np.zeros(4, np.float32)}, ValueError, "must have 2 dimensions"),
        ({"c": np.zeros((4, 10), np.float32)[:, ::2]}, ValueError, "C must be contiguous"),
        ({"b": np.zeros((12, 10), np.float32)[::2, ::2]}, ValueError, "B must be contiguous"),
        ({"mode": 7}, ValueError, "b_mode must be"),
    ],
)
def test_what_does_not_fit_is_refused(kernels, change, error, says):
    given = {
        "a": np.zeros((4, 6), np.float32),
        "b": np.zeros((6, 5), np.float32),
        "c": np.zeros((4, 5), np.float32),
        "mode": ROW,
    } | change
    with pytest.raises(error, match=says):
        _ffi_api.gemm(kernels.handle, *(TENSOR(given[x]) for x in "abc"), given["mode"], False)
