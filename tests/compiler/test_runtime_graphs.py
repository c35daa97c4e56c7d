"""The same graphs through the whole compiler and the run-time library."""

from __future__ import annotations

import numpy as np
import pytest
from cases import (
    CONV_SIZES,
    EPILOGUE_SIZES,
    FORMS,
    MATMUL_SIZES,
    conv,
    epilogue_graphs,
    matmul_graphs,
)
from graphs import Compiled, assert_matches_ort, graph

RESIDUAL = np.random.default_rng(5)
CASES = [
    *((f"matmul-{name}", model, MATMUL_SIZES) for name, model in matmul_graphs().items()),
    *((f"conv-{name}", model, CONV_SIZES) for name, model in FORMS.items()),
    # Enough work to be shared, and a last panel that is not full.
    (
        "conv-patches_of_a_batch",
        conv("<strides=[2,2]>", 96, (192, 96, 2, 2)),
        [{"N": 8, "H": 28, "W": 28}, {"N": 5, "H": 30, "W": 22}, {"N": 1, "H": 14, "W": 14}],
    ),
    (
        "conv-three_by_three_of_a_batch",
        conv("<pads=[1,1,1,1]>", 32, (32, 32, 3, 3)),
        [{"N": 7, "H": 14, "W": 14}, {"N": 1, "H": 57, "W": 55}],
    ),
    # Residuals that die with the sum, and one that is read again.
    (
        "conv-residuals",
        graph(
            """g (float[N,8,H,W] x) => (float[N,8,H,W] y)
            { a = Conv(x, first) b = Relu(a) c = Conv(b, second) d = Add(c, b) e = Relu(d)
              f = Conv<pads=[1,1,1,1]>(e, third) g = Add(e, f) h = Conv(g, first)
              i = Add(h, g) j = Conv(i, second) k = Conv(j, first) l = Add(k, i) y = Relu(l) }""",
            first=RESIDUAL.standard_normal((8, 8, 1, 1)).astype(np.float32),
            second=RESIDUAL.standard_normal((8, 8, 1, 1)).astype(np.float32),
            third=RESIDUAL.standard_normal((8, 8, 3, 3)).astype(np.float32),
        ),
        [{"N": 1, "H": 5, "W": 7}, {"N": 3, "H": 28, "W": 28}, {"N": 5, "H": 7, "W": 7}],
    ),
    *((f"epilogue-{name}", model, EPILOGUE_SIZES) for name, model in epilogue_graphs().items()),
]


@pytest.mark.parametrize(
    ("model", "sizes"), [pytest.param(model, sizes, id=name) for name, model, sizes in CASES]
)
def test_matches(model, sizes, rng):
    assert_matches_ort(model, Compiled(model), rng, sizes)
