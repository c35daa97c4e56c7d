"""FlexAttention, with graphs that change its scores and weights, at symbolic sizes."""

from __future__ import annotations

import numpy as np
import pytest
from onnx import parser
from tolerances import MODEL_REL, model_error

from moonpoly import compiler

F32 = np.float32
BOUND = MODEL_REL["float32"] / 10

_PLACES = """
    sizes = Shape (scores) rows = Gather <axis: int = 0> (sizes, two)
    columns = Gather <axis: int = 0> (sizes, three)
    i = Range (zero, rows, one) j = Range (zero, columns, one)
    row = Reshape (i, down) column = Reshape (j, across)
"""
_CONSTANTS = (
    "int64 zero = {0}, int64 one = {1}, int64 two = {2}, int64 three = {3}, "
    "int64[2] down = {-1, 1}, int64[2] across = {1, -1}"
)


def _graph(name: str, constants: str, body: str) -> str:
    return (
        f"{name}: graph = {name} (float[B, H, L, S] scores) => (float[B, H, L, S] changed)\n"
        f"<{constants}>\n{{ {body} }}"
    )


# What is done to the scores or weights: as a graph, and in NumPy.
CHANGES = {
    "causal": (
        _graph(
            "score_mod",
            f"{_CONSTANTS}, float hidden = {{-inf}}",
            f"{_PLACES} seen = GreaterOrEqual (row, column) changed = Where (seen, scores, hidden)",
        ),
        lambda x, i, j: np.where(i >= j, x, -np.inf),
    ),
    "distance": (
        _graph(
            "score_mod",
            _CONSTANTS,
            f"{_PLACES} far = Sub (row, column) real = Cast <to: int = 1> (far)"
            " changed = Add (scores, real)",
        ),
        lambda x, i, j: x + (i - j),
    ),
    "cap": (
        _graph(
            "score_mod",
            "float cap = {2}",
            "part = Div (scores, cap) bent = Tanh (part) changed = Mul (bent, cap)",
        ),
        lambda x, i, j: 2 * np.tanh(x / 2),
    ),
    "weights": (
        _graph("prob_mod", "float half = {0.5}", "changed = Mul (scores, half)"),
        lambda x, i, j: x / 2,
    ),
}


def _model(attributes: str, dims: str, key_dims: str, value_dims: str):
    return parser.parse_model(
        '<ir_version: 10, opset_import: ["": 24, "ai.onnx.preview": 1]>\n'
        f"g (float[{dims}] q, float[{key_dims}] k, float[{value_dims}] v) => (float[b,h,r,w] y)"
        f"{{ y = ai.onnx.preview.FlexAttention <{attributes}> (q, k, v) }}"
    )


def _exact(q, k, v, scale, change=None, of_weights=False):
    q, k, v = (x.astype(np.float64) for x in (q, k, v))
    share = q.shape[1] // k.shape[1]
    k, v = np.repeat(k, share, axis=1), np.repeat(v, share, axis=1)
    scores = scale * q @ np.swapaxes(k, 2, 3)
    i, j = np.arange(scores.shape[2])[:, None], np.arange(scores.shape[3])
    if change and not of_weights:
        scores = change(scores, i, j)
    powers = np.exp(scores - scores.max(axis=-1, keepdims=True))
    weights = powers / powers.sum(axis=-1, keepdims=True)
    return (change(weights, i, j) if change and of_weights else weights) @ v


@pytest.mark.parametrize("name", CHANGES)
def test_graphs_change_scores_and_weights(rng, name):
    attributes, change = CHANGES[name]
    exe = compiler.compile(_model(attributes, "b,2,s,8", "b,2,t,8", "b,2,t,8"))
    for b, s, t in ((1, 1, 1), (2, 7, 4), (3, 5, 17)):
        q, k, v = (rng.standard_normal((b, 2, n, 8)).astype(F32) for n in (s, t, t))
        want = _exact(q, k, v, 8**-0.5, change, name == "weights")
        assert model_error(exe(q=q, k=k, v=v)["y"], want) <= BOUND


def test_query_heads_share_keys_and_values_have_their_own_size(rng):
    exe = compiler.compile(_model("scale: float = 0.1", "b,4,s,8", "b,2,t,8", "b,2,t,5"))
    for b, s, t in ((1, 1, 1), (2, 7, 4), (3, 2, 17)):
        q = rng.standard_normal((b, 4, s, 8)).astype(F32)
        k, v = (rng.standard_normal((b, 2, t, n)).astype(F32) for n in (8, 5))
        assert model_error(exe(q=q, k=k, v=v)["y"], _exact(q, k, v, 0.1)) <= BOUND
