"""Inputs are checked by name, dtype, rank and shape, and laid out for the kernels."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from moonpoly.error import InputError
from moonpoly.runtime.binding import (
    ALIGNMENT_BYTES,
    bind_inputs,
    check_constraints,
    check_least,
    check_limits,
)
from moonpoly.runtime.metadata import ModelMetadata, TensorSpec


def _metadata(*inputs: TensorSpec, constraints=()) -> ModelMetadata:
    return ModelMetadata(
        name="m",
        digest="",
        target="",
        features=(),
        inputs=inputs,
        outputs=(),
        constraints=tuple(constraints),
        limits=(),
        least=(),
        raw={},
    )


META = _metadata(
    TensorSpec("ids", "int64", ("batch", "seq")),
    TensorSpec("image", "float32", ("batch", 3, "h", "w")),
)


def _given(batch=2, seq=5, h=4, w=6):
    return {
        "ids": np.zeros((batch, seq), np.int64),
        "image": np.zeros((batch, 3, h, w), np.float32),
    }


def test_accepts_any_size_of_a_symbolic_dimension():
    for batch, seq, h, w in [(1, 1, 1, 1), (7, 13, 2, 3), (0, 4, 5, 6)]:
        arrays = bind_inputs(META, _given(batch, seq, h, w))
        assert [a.shape for a in arrays] == [(batch, seq), (batch, 3, h, w)]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"idz": np.zeros(1)}, "unknown input 'idz'; the model takes ids, image"),
        ({"ids": None}, "must be a NumPy array or a DLPack tensor, got NoneType"),
        ({"ids": np.zeros((2, 5), np.int32)}, "must be int64, got int32"),
        ({"ids": np.zeros((2, 5, 1), np.int64)}, "must have rank 2"),
        ({"image": np.zeros((2, 4, 4, 6), np.float32)}, "must have 3 along axis 1"),
        ({"ids": np.zeros((3, 5), np.int64)}, "dimension batch must be the same everywhere"),
    ],
)
def test_refuses_a_wrong_input_and_says_why(change, message):
    with pytest.raises(InputError, match=message):
        bind_inputs(META, _given() | change)


def test_refuses_a_missing_input():
    given = _given()
    del given["image"]
    with pytest.raises(InputError, match="missing input 'image'"):
        bind_inputs(META, given)


def test_an_equality_between_two_symbols_is_checked():
    meta = _metadata(
        TensorSpec("a", "float32", ("p",)),
        TensorSpec("b", "float32", ("q",)),
        constraints=[("p", "q")],
    )
    bind_inputs(meta, {"a": np.zeros(3, np.float32), "b": np.zeros(3, np.float32)})
    with pytest.raises(InputError, match="p and q must be equal, got 3 and 4"):
        bind_inputs(meta, {"a": np.zeros(3, np.float32), "b": np.zeros(4, np.float32)})


def test_an_equality_with_a_number_is_checked():
    check_constraints([("p", 4)], {"p": 4})
    with pytest.raises(InputError, match="p and 4 must be equal, got 5 and 4"):
        check_constraints([("p", 4)], {"p": 5})


def test_an_equality_of_expressions_is_checked():
    rule = (["+", "past", "new"], ["*", ["//", "total", 2], 2])
    check_constraints([rule], {"past": 3, "new": 1, "total": 5})
    with pytest.raises(
        InputError, match=r"past \+ new and \(total // 2\) \* 2 must be equal, got 4"
    ):
        check_constraints([rule], {"past": 3, "new": 1, "total": 9})


def test_a_dimension_that_is_an_expression_is_checked():
    metadata = replace(
        _metadata(TensorSpec("x", "float32", ("s", "2*s"))), stated={"2*s": ["*", "s", 2]}
    )
    bind_inputs(metadata, {"x": np.zeros((2, 4), np.float32)})
    with pytest.raises(InputError, match=r"axis 1 of 'x' must be 2\*s, which is 4 at s=2, got 5"):
        bind_inputs(metadata, {"x": np.zeros((2, 5), np.float32)})


def test_a_least_size_is_checked():
    check_least([("n", 1)], {"n": 1})
    with pytest.raises(InputError, match="n must be at least 1 in this model, got 0"):
        check_least([("n", 1)], {"n": 0})


def test_an_aligned_contiguous_input_is_not_copied():
    raw = np.zeros(4096, np.uint8)
    start = -raw.ctypes.data % ALIGNMENT_BYTES
    ids = raw[start : start + 80].view(np.int64).reshape(2, 5)
    bound, _ = bind_inputs(META, _given() | {"ids": ids})
    assert bound is ids


@pytest.mark.parametrize("shift", [0, 1, 3])
def test_any_layout_arrives_compact_and_aligned(shift, rng):
    base = rng.integers(0, 9, size=64).astype(np.int64)
    for ids in (
        base[shift : shift + 10].reshape(2, 5),
        base[shift : shift + 10].reshape(5, 2).T,
        base[shift : shift + 20 : 2].reshape(2, 5),
        base[shift : shift + 10].reshape(2, 5)[::-1],
        base[shift : shift + 10].astype(">i8").reshape(2, 5),
    ):
        bound, _ = bind_inputs(META, _given() | {"ids": ids})
        np.testing.assert_array_equal(bound, ids)
        assert bound.flags.c_contiguous
        assert bound.dtype.isnative
        assert bound.ctypes.data % ALIGNMENT_BYTES == 0


def test_a_read_only_input_is_taken():
    ids = np.arange(10, dtype=np.int64).reshape(2, 5)
    ids.flags.writeable = False
    bound, _ = bind_inputs(META, _given() | {"ids": ids})
    np.testing.assert_array_equal(bound, ids)


def test_a_dlpack_tensor_is_taken():
    import tvm_ffi

    ids = np.arange(10, dtype=np.int64).reshape(2, 5)
    bound, _ = bind_inputs(META, _given() | {"ids": tvm_ffi.from_dlpack(ids)})
    np.testing.assert_array_equal(bound, ids)


def test_a_size_beyond_the_models_tables_is_refused():
    check_limits((("length", 512),), {"length": 512, "batch": 10_000})
    with pytest.raises(InputError, match="dimension length can be 512 at most"):
        check_limits((("length", 512),), {"length": 513})


def test_another_order_of_bytes_is_put_right():
    given = _given()
    given["image"] += np.arange(6, dtype=np.float32)
    swapped = {k: v.astype(v.dtype.newbyteorder(">")) for k, v in given.items()}
    for array, want in zip(bind_inputs(META, swapped), given.values(), strict=True):
        np.testing.assert_array_equal(array.view(want.dtype), want)
