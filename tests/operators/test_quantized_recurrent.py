"""DynamicQuantizeLSTM follows ONNX Runtime's steps: what it quantises, by which range."""

from __future__ import annotations

import numpy as np
import pytest
from node_models import Pair, node_model, random_integers, slow
from tolerances import ELEMENTWISE_REL

F32 = np.float32


@pytest.mark.parametrize("dtype", [np.int8, np.uint8])
@pytest.mark.parametrize("direction", [slow("forward"), slow("reverse"), "bidirectional"])
def test_dynamic_quantize_lstm(rng, direction, dtype):
    d, inputs, hidden = 2 if direction == "bidirectional" else 1, 7, 10
    constants = {
        "w": random_integers(rng, dtype, (d, inputs, 4 * hidden)),
        "r": random_integers(rng, dtype, (d, hidden, 4 * hidden)),
        "b": rng.standard_normal((d, 8 * hidden)).astype(F32),
        "ws": np.full(d, 0.01, F32),
        "wz": random_integers(rng, dtype, (d,)) if dtype == np.uint8 else np.zeros(d, dtype),
        "rs": np.full(d, 0.004, F32),
        "rz": random_integers(rng, dtype, (d,)) if dtype == np.uint8 else np.zeros(d, dtype),
    }
    pair = Pair(
        node_model(
            "DynamicQuantizeLSTM",
            {"x": (F32, ["s", "n", inputs])},
            outputs=["y", "h", "c"],
            constants=constants,
            operands=["x", "w", "r", "b", "", "", "", "", "ws", "wz", "rs", "rz"],
            domain="com.microsoft",
            hidden_size=hidden,
            direction=direction,
        )
    )
    for s, n in ((1, 1), (5, 1), (9, 3)):
        pair.assert_close(
            ELEMENTWISE_REL["float32"], x=rng.standard_normal((s, n, inputs)).astype(F32)
        )
