"""The same graphs through the whole compiler and the run-time library."""

from __future__ import annotations

import pytest
from cases import (
    CONV_SIZES,
    EPILOGUE_SIZES,
    FORMS,
    MATMUL_SIZES,
    epilogue_graphs,
    matmul_graphs,
)
from graphs import Compiled, assert_matches_ort

CASES = [
    *((f"matmul-{name}", model, MATMUL_SIZES) for name, model in matmul_graphs().items()),
    *((f"conv-{name}", model, CONV_SIZES) for name, model in FORMS.items()),
    *((f"epilogue-{name}", model, EPILOGUE_SIZES) for name, model in epilogue_graphs().items()),
]


@pytest.mark.parametrize(
    ("model", "sizes"), [pytest.param(model, sizes, id=name) for name, model, sizes in CASES]
)
def test_matches(model, sizes, rng):
    assert_matches_ort(model, Compiled(model), rng, sizes)
