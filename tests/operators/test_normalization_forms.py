"""Normalisations in the forms that exporters and ONNX Runtime's optimiser write."""

from __future__ import annotations

import numpy as np
import pytest
from node_models import Form, assert_forms_match, node_model
from onnx import TensorProto
from tolerances import ELEMENTWISE_REL

F32, I32 = np.float32, np.int32
DOMAIN = "com.microsoft"
BOUND = 2 * ELEMENTWISE_REL["float32"]
WIDTH = 40
SIZES = [(1, 1), (2, 7), (3, 17)]


def normal(rng, *shape):
    return rng.standard_normal(shape).astype(F32)


def skipping(rng, simplified, skip, names, outputs=("y",), rank=3, dtype=F32):
    op = f"Skip{'Simplified' if simplified else ''}LayerNormalization"
    shape = ["b", "s", WIDTH][-rank:]
    constants = {name: normal(rng, WIDTH).astype(dtype) for name in names if name}
    model = node_model(
        op,
        {"x": (dtype, shape), "skip": (dtype, skip)},
        outputs=outputs,
        constants=constants,
        operands=["x", "skip", *names],
        domain=DOMAIN,
        epsilon=1e-5,
    )

    def feeds(b, s):
        sizes = {"b": b, "s": s}
        shapes = {"x": shape, "skip": skip}
        return {
            name: normal(rng, *[sizes.get(dim, dim) for dim in dims]).astype(dtype)
            for name, dims in shapes.items()
        }

    return Form(model, feeds)


@pytest.mark.parametrize("simplified", [False, True])
def test_what_is_skipped_is_added_first(rng, simplified):
    scales = ["gamma"] if simplified else ["gamma", "beta"]
    whole, both = ["b", "s", WIDTH], ["y", "", "", "sum"]
    forms = {
        "plain": skipping(rng, simplified, whole, scales),
        "bias": skipping(rng, simplified, whole, [*scales, "bias"], both),
        "row": skipping(rng, simplified, ["s", WIDTH], scales, both),
        "batch_of_one": skipping(rng, simplified, [1, "s", WIDTH], scales),
        "matrix": skipping(rng, simplified, ["s", WIDTH], scales, rank=2),
    }
    if not simplified:
        forms["without_beta"] = skipping(rng, False, whole, ["gamma", "", "bias"], both)
    assert_forms_match(forms, SIZES, BOUND)


def layer(rng, op, axis, outputs, constant, opset=17):
    """Return a form whose scale is a constant, or an input of symbolic sizes."""
    width = ("m", "k") if axis in (1, -2) else ("k",)
    known = {"m": 6, "k": 5} if constant else {}
    inputs = {"x": (F32, ["n", *(known.get(dim, dim) for dim in "mk")])}
    constants = {}
    if constant:
        constants["scale"] = normal(rng, *(known[dim] for dim in width))
    else:
        inputs["scale"] = (F32, list(width))
    model = node_model(
        op, inputs, outputs=outputs, constants=constants, opset=opset, axis=axis, epsilon=1e-3
    )

    def feeds(n, m, k):
        sizes = {"m": m, "k": k} | known
        given = {"x": normal(rng, n, sizes["m"], sizes["k"])}
        return given if constant else given | {"scale": normal(rng, *(sizes[d] for d in width))}

    return Form(model, feeds)


def test_layers_over_any_axes(rng):
    forms = {}
    for constant in (True, False):
        for axis in (1, -1):
            for outputs in (["y"], ["y", "mean", "inverse"]):
                name = f"{axis}_{len(outputs)}_{constant}"
                forms[name] = layer(rng, "LayerNormalization", axis, outputs, constant)
            name = f"simplified_{axis}_{constant}"
            forms[name] = layer(
                rng, "SimplifiedLayerNormalization", axis, ["y", "inverse"], constant
            )
    assert_forms_match(forms, [(1, 1, 5), (2, 7, 5), (3, 2, 17)], 2 * BOUND)


def test_root_mean_squares_over_any_axes(rng):
    forms = {
        f"{axis}_{constant}": layer(rng, "RMSNormalization", axis, ["y"], constant, opset=23)
        for axis in (1, 2)
        for constant in (True, False)
    }
    assert_forms_match(forms, [(1, 1, 5), (2, 7, 5)], BOUND, by_reference=True)


def test_embeddings_count_masks_and_take_positions(rng):
    tables = {"words": (50, 24), "places": (70, 24), "gamma": (24,), "beta": (24,)}
    constants = {name: normal(rng, *shape) for name, shape in tables.items()}

    def embedding(names, operands, outputs, **attrs):
        model = node_model(
            "EmbedLayerNormalization",
            {name: (I32, ["b", "s"]) for name in names},
            outputs=outputs,
            constants=constants,
            operands=["ids", "", "words", "places", "", "gamma", "beta", *operands],
            domain=DOMAIN,
            output_types=[TensorProto.FLOAT, TensorProto.INT32, TensorProto.FLOAT],
            **attrs,
        )
        limits = {"ids": 50, "at": 70, "mask": 2}
        return Form(
            model,
            lambda b, s: {n: rng.integers(0, limits[n], (b, s)).astype(I32) for n in names},
        )

    forms = {
        "masked": embedding(["ids", "mask"], ["mask"], ["y", "counts", "sum"], mask_index_type=0),
        "positions": embedding(["ids", "at"], ["", "at"], ["y", "counts", "sum"]),
    }
    assert_forms_match(forms, SIZES, BOUND)
