"""Attention, RotaryEmbedding and TensorScatter of the standard, against its reference."""

from __future__ import annotations

import numpy as np
import pytest
from node_models import Pair, node_model, slow
from onnx import helper
from tolerances import MODEL_REL

F32 = np.float32
BOUND = MODEL_REL["float32"] / 10
SIZES = [(1, 1, 1), (2, 7, 9), (2, 9, 4)]


def normal(rng, *shape):
    return rng.standard_normal(shape).astype(F32)


@pytest.mark.parametrize("mask", [None, slow("bool"), "float", "short"])
@pytest.mark.parametrize("causal", [slow(0), 1])
def test_masks(rng, mask, causal):
    inputs = {
        "q": (F32, ["b", 4, "s", 6]),
        "k": (F32, ["b", 2, "t", 6]),
        "v": (F32, ["b", 2, "t", 5]),
    }
    if mask is not None:
        width = "u" if mask == "short" else "t"
        inputs["mask"] = (F32 if mask == "float" else np.bool_, ["s", width])
    pair = Pair(node_model("Attention", inputs, opset=24, is_causal=causal), by_reference=True)
    for b, s, t in SIZES:
        feeds = {
            "q": normal(rng, b, 4, s, 6),
            "k": normal(rng, b, 2, t, 6),
            "v": normal(rng, b, 2, t, 5),
        }
        if mask == "float":
            feeds["mask"] = normal(rng, s, t)
        elif mask is not None:
            # Rows in which everything is hidden give zeros.
            width = max(1, t - 2) if mask == "short" else t
            feeds["mask"] = rng.integers(0, 2, (s, width)).astype(np.bool_)
        pair.assert_close(BOUND, **feeds)


@pytest.mark.parametrize("mode", [*map(slow, range(3)), 3])
def test_every_stage_can_be_shown(rng, mode):
    pair = Pair(
        node_model(
            "Attention",
            {
                **{name: (F32, ["b", "s", 24]) for name in "qkv"},
                "mask": (F32, ["s", "t"]),
                **{name: (F32, ["b", 4, "p", 6]) for name in ("pk", "pv")},
            },
            outputs=["y", "key", "value", "shown"],
            opset=23,
            q_num_heads=4,
            kv_num_heads=4,
            # With a cap the reference shows it at stage 0 as well, against what the standard says.
            softcap=2.0 if mode else 0.0,
            is_causal=1,
            qk_matmul_output_mode=mode,
        ),
        by_reference=True,
    )
    for b, s, p in ((1, 1, 1), (2, 7, 3)):
        feeds = {name: normal(rng, b, s, 24) for name in "qkv"}
        feeds |= {name: normal(rng, b, 4, p, 6) for name in ("pk", "pv")}
        for got, wanted in pair.run(mask=normal(rng, s, s + p), **feeds):
            hidden = np.isneginf(wanted)
            np.testing.assert_array_equal(np.isneginf(got), hidden)
            np.testing.assert_allclose(got[~hidden], wanted[~hidden], atol=1e-5)


def test_padded_keys_and_windows(rng):
    pair = Pair(
        node_model(
            "Attention",
            {
                **{name: (F32, ["b", 2, "s" if name == "q" else "t", 6]) for name in "qkv"},
                "valid": (np.int64, ["b"]),
            },
            operands=["q", "k", "v", "", "", "", "valid"],
            opset=25,
            is_causal=1,
            left_window_size=2,
        ),
        by_reference=True,
    )
    feeds = {name: normal(rng, 3, 2, 4 if name == "q" else 8, 6) for name in "qkv"}
    pair.assert_close(BOUND, valid=np.array([4, 8, 2]), **feeds)


@pytest.mark.parametrize("interleaved", [0, 1])
def test_rotary_embedding_of_a_part(rng, interleaved):
    pair = Pair(
        node_model(
            "RotaryEmbedding",
            {
                "x": (F32, ["b", 4, "s", 8]),
                "cos": (F32, ["b", "s", 2]),
                "sin": (F32, ["b", "s", 2]),
            },
            opset=23,
            interleaved=interleaved,
            rotary_embedding_dim=4,
        ),
        by_reference=True,
    )
    for b, s in ((1, 1), (2, 7)):
        pair.assert_close(
            BOUND, x=normal(rng, b, 4, s, 8), cos=normal(rng, b, s, 2), sin=normal(rng, b, s, 2)
        )


@pytest.mark.parametrize("mode", ["linear", "circular"])
@pytest.mark.parametrize("placed", [False, True])
def test_tensor_scatter(rng, mode, placed):
    inputs = {"cache": (F32, ["b", 2, "t", 5]), "update": (F32, ["b", 2, "s", 5])}
    if placed:
        inputs["begin"] = (np.int64, ["b"])
    pair = Pair(node_model("TensorScatter", inputs, opset=24, mode=mode), by_reference=True)
    for b, t, s in ((1, 1, 1), (3, 9, 4)):
        feeds = {"cache": normal(rng, b, 2, t, 5), "update": normal(rng, b, 2, s, 5)}
        if placed:
            feeds["begin"] = rng.integers(0, t if mode == "circular" else t - s + 1, b)
        pair.assert_close(0.0, **feeds)


@pytest.mark.parametrize("dtype", [np.float16, np.float64])
def test_types_that_are_computed_in_others(rng, dtype):
    kind = helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
    inputs = {name: (dtype, ["b", 2, "s", 8]) for name in "qkv"}
    inputs |= {name: (dtype, ["b", 2, "p", 8]) for name in ("pk", "pv")}
    model = node_model(
        "Attention",
        inputs,
        outputs=["y", "key", "value"],
        operands=["q", "k", "v", "", "pk", "pv"],
        output_types=[kind] * 3,
        opset=24,
        is_causal=1,
    )
    pair = Pair(model, by_reference=True)
    feeds = {name: normal(rng, 2, 2, 3, 8).astype(dtype) for name in "qkv"}
    feeds |= {name: normal(rng, 2, 2, 4, 8).astype(dtype) for name in ("pk", "pv")}
    # The reference rounds every step to the type.
    pair.assert_close(BOUND if dtype == np.float64 else 2e-2, **feeds)
