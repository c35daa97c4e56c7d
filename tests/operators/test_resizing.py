"""Resize and Upsample by scales and sizes that are known at run time only."""

from __future__ import annotations

import numpy as np
import pytest
from node_models import Form, assert_forms_match, node_model
from tolerances import MODEL_REL

F32, I64 = np.float32, np.int64
BOUND = MODEL_REL["float32"]
IMAGE = ["n", 2, "h", "w"]
# batch, height, width, and the two scales
LARGER = [(1, 3, 4, 2.0, 2.0), (2, 5, 7, 1.5, 2.6), (1, 1, 1, 3.0, 3.0)]
SMALLER = [*LARGER, (2, 4, 6, 0.5, 0.6), (1, 7, 5, 0.4, 1.5)]


def form(rng, op, opset, mode, by_size=False, **attrs):
    inputs = {"x": (F32, IMAGE), "to": (I64 if by_size else F32, [4])}
    operands = ["x", "to"]
    if opset > 10:
        operands = ["x", "", "", "to"] if by_size else ["x", "", "to"]
    model = node_model(op, inputs, operands=operands, opset=opset, mode=mode, **attrs)

    def feeds(n, h, w, down, across):
        to = [n, 2, int(h * down), int(w * across)] if by_size else [1, 1, down, across]
        x = rng.standard_normal((n, 2, h, w)).astype(F32)
        return {"x": x, "to": np.array(to, I64 if by_size else F32)}

    return Form(model, feeds)


@pytest.mark.parametrize(
    ("op", "opset", "sizes"), [("Upsample", 9, LARGER), ("Resize", 10, SMALLER)]
)
def test_by_scales_from_the_corner(rng, op, opset, sizes):
    forms = {mode: form(rng, op, opset, mode) for mode in ("nearest", "linear")}
    assert_forms_match(forms, sizes, BOUND)


@pytest.mark.parametrize("by_size", [False, True])
def test_in_every_mode_and_frame(rng, by_size):
    forms = {
        f"{mode}_{frame}": form(
            rng, "Resize", 13, mode, by_size, coordinate_transformation_mode=frame
        )
        for mode, frame in (
            ("nearest", "asymmetric"),
            ("nearest", "half_pixel"),
            ("linear", "half_pixel"),
            ("linear", "pytorch_half_pixel"),
            ("cubic", "half_pixel"),
        )
    }
    if by_size:
        # Given scales, ONNX Runtime aligns with the rounded size, the standard with the exact one.
        frame = {"coordinate_transformation_mode": "align_corners"}
        forms["aligned"] = form(rng, "Resize", 13, "linear", by_size, **frame)
    assert_forms_match(forms, SMALLER, BOUND)


def test_filtered_by_scales(rng):
    forms = {mode: form(rng, "Resize", 18, mode, antialias=1) for mode in ("linear", "cubic")}
    assert_forms_match(forms, SMALLER, BOUND)
