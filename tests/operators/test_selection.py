"""Operators that select by data, in every form, at symbolic sizes, against ONNX Runtime."""

from __future__ import annotations

import numpy as np
import pytest
from node_models import Form, assert_forms_match, node_model
from onnx import TensorProto, helper

F32, I64 = np.float32, np.int64
KIND = helper.np_dtype_to_tensor_dtype
SIZES = [(1, 1), (5, 7), (2, 17)]


def matrices(rng, dtype, most=3):
    """Few different values, so that there are ties."""
    return lambda n, m: {"x": rng.integers(0, most, (n, m)).astype(dtype)}


def test_elements_that_are_not_zero(rng):
    forms = {}
    for dtype in (F32, np.int64, np.uint8, np.bool_):
        model = node_model("NonZero", {"x": (dtype, ["n", "m"])}, output_types=[TensorProto.INT64])
        forms[np.dtype(dtype).name] = Form(model, matrices(rng, dtype, 2))
    assert_forms_match(forms, [*SIZES, (0, 3)], 0.0)


def largest(dtype, feeds, opset=11, **attrs):
    constants = {"k": np.array([1])} if opset > 9 else {}
    model = node_model(
        "TopK",
        {"x": (dtype, ["n", "m"])},
        outputs=["values", "places"],
        constants=constants,
        output_types=[KIND(np.dtype(dtype)), TensorProto.INT64],
        opset=opset,
        **attrs,
    )
    return Form(model, feeds)


def test_the_first_in_order(rng):
    forms = {
        np.dtype(dtype).name: largest(dtype, matrices(rng, dtype))
        for dtype in (F32, np.float64, np.int64, np.int32, np.uint8)
    }
    forms["smallest"] = largest(F32, matrices(rng, F32), largest=0)
    forms["down"] = largest(F32, matrices(rng, F32), axis=0)
    counted = node_model(
        "TopK",
        {"x": (F32, ["n", "m"]), "k": (I64, [1])},
        outputs=["values", "places"],
        output_types=[TensorProto.FLOAT, TensorProto.INT64],
    )
    forms["counted"] = Form(
        counted, lambda n, m: matrices(rng, F32)(n, m) | {"k": np.array([(m + 1) // 2])}
    )
    assert_forms_match(forms, SIZES, 0.0)


def test_the_first_of_a_number_in_an_attribute(rng):
    forms = {"old": largest(F32, matrices(rng, F32), opset=7, k=2, axis=-1)}
    assert_forms_match(forms, [(1, 2), (5, 7)], 0.0)


@pytest.mark.parametrize("axis", [None, 0, 1])
def test_what_differs(rng, axis):
    along = {} if axis is None else {"axis": axis}
    forms = {}
    for order in (0, 1):
        model = node_model(
            "Unique",
            {"x": (F32, ["n", "m"])},
            outputs=["y", "first", "back", "counts"],
            output_types=[TensorProto.FLOAT, *[TensorProto.INT64] * 3],
            sorted=order,
            **along,
        )
        forms[f"sorted_{order}"] = Form(model, matrices(rng, F32, 2))
    model = node_model(
        "Unique",
        {"x": (I64, ["n", "m"])},
        outputs=["y", "", "", "counts"],
        output_types=[TensorProto.INT64] * 4,
        **along,
    )
    forms["counts"] = Form(model, matrices(rng, I64, 2))
    assert_forms_match(forms, SIZES, 0.0)


def suppression(rng, names, **attrs):
    """Select boxes of as many images and classes as a test says; ``names`` are the operands."""
    constants = {
        "most": np.array([5]),
        "overlap": np.array([0.3], F32),
        "least": np.array([0.2], F32),
    }
    model = node_model(
        "NonMaxSuppression",
        {"boxes": (F32, ["n", "k", 4]), "scores": (F32, ["n", "c", "k"])},
        constants={name: constants[name] for name in names if name},
        operands=["boxes", "scores", *names],
        output_types=[TensorProto.INT64],
        opset=11,
        **attrs,
    )

    def feeds(n, c, k):
        corners, sizes = rng.random((n, k, 2)), rng.random((n, k, 2)) * 0.4
        boxes = np.concatenate([corners, corners + sizes], axis=-1).astype(F32)
        return {"boxes": boxes, "scores": rng.random((n, c, k)).astype(F32)}

    return Form(model, feeds)


def test_boxes_that_overlap(rng):
    forms = {
        "bare": suppression(rng, []),
        "most": suppression(rng, ["most"]),
        "skipped": suppression(rng, ["most", "", "least"]),
        "all": suppression(rng, ["most", "overlap", "least"]),
        "centres": suppression(rng, ["most", "overlap", "least"], center_point_box=1),
    }
    assert_forms_match(forms, [(1, 1, 1), (2, 3, 20), (1, 2, 0)], 0.0)
