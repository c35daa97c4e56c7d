"""Attention in ONNX Runtime's forms: masks, caches, biases and shared keys, at symbolic sizes."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from node_models import Pair, node_model, slow
from onnx import TensorProto, helper
from tolerances import MODEL_REL

from moonpoly import compiler
from moonpoly.error import UnsupportedError

F32 = np.float32
DOMAIN = "com.microsoft"
BOUND = MODEL_REL["float32"] / 10
WIDTH, HEADS = 24, 4
SIZES = [(1, 1), (2, 7), (3, 17)]


def normal(rng, *shape):
    return rng.standard_normal(shape).astype(F32)


def some(rng, *shape):
    """Zeros and ones, with a one in every row."""
    return np.maximum(rng.integers(0, 2, shape), np.arange(shape[-1]) == 0).astype(np.int32)


# Name → shape of the mask, its values.
MASKS = {
    "columns": (["b", "s"], lambda rng, b, s: some(rng, b, s)),
    "ends": (["b"], lambda rng, b, s: rng.integers(1, s + 1, b).astype(np.int32)),
    "ends_and_beginnings": (
        ["twice"],
        lambda rng, b, s: np.repeat([s, s // 3], b).astype(np.int32),
    ),
    "each_row": (["b", "s", "s"], lambda rng, b, s: some(rng, b, s, s)),
}


@pytest.mark.parametrize("unidirectional", [0, slow(1)])
@pytest.mark.parametrize("mask", [None, "columns", *map(slow, list(MASKS)[1:])])
def test_attention(rng, mask, unidirectional):
    inputs = {"x": (F32, ["b", "s", WIDTH])}
    if mask is not None:
        inputs["mask"] = (np.int32, MASKS[mask][0])
    pair = Pair(
        node_model(
            "Attention",
            inputs,
            constants={
                "w": normal(rng, WIDTH, 3 * WIDTH) * F32(0.3),
                "bias": normal(rng, 3 * WIDTH),
            },
            operands=["x", "w", "bias", *(["mask"] if mask else [])],
            domain=DOMAIN,
            num_heads=HEADS,
            unidirectional=unidirectional,
        )
    )
    for b, s in SIZES:
        feeds = {"x": normal(rng, b, s, WIDTH)}
        if mask is not None:
            feeds["mask"] = MASKS[mask][1](rng, b, s)
        pair.assert_close(BOUND, **feeds)


@pytest.mark.parametrize("cached", [False, True])
def test_attention_with_a_cache_or_a_bias(rng, cached):
    size = WIDTH // HEADS
    inputs = {"x": (F32, ["b", "s", WIDTH])}
    if cached:
        inputs["past"] = (F32, [2, "b", HEADS, "p", size])
    else:
        inputs["added"] = (F32, [1, HEADS, "s", "s"])
    pair = Pair(
        node_model(
            "Attention",
            inputs,
            outputs=["y", "present"] if cached else ["y"],
            constants={"w": normal(rng, WIDTH, 3 * WIDTH) * F32(0.3)},
            operands=["x", "w", "", "", *(["past"] if cached else ["", "added"])],
            domain=DOMAIN,
            num_heads=HEADS,
            unidirectional=1,
            scale=0.7,
        )
    )
    for b, s, p in ((1, 1, 1), (2, 7, 4), (3, 5, 0)):
        feeds = {"x": normal(rng, b, s, WIDTH)}
        if cached:
            feeds["past"] = normal(rng, 2, b, HEADS, p, size)
        else:
            feeds["added"] = normal(rng, 1, HEADS, s, s)
        pair.assert_close(BOUND, **feeds)


def test_a_shared_buffer_is_refused_by_name(rng):
    model = node_model(
        "Attention",
        {"x": (F32, ["b", "s", WIDTH])},
        constants={"w": normal(rng, WIDTH, 3 * WIDTH), "bias": normal(rng, 3 * WIDTH)},
        domain=DOMAIN,
        num_heads=HEADS,
        past_present_share_buffer=1,
    )
    with pytest.raises(UnsupportedError, match=r"Attention .*past_present_share_buffer"):
        compiler.compile(model)


@pytest.mark.parametrize("form", [slow("plain"), "bias", slow("mask"), "cache"])
def test_multi_head_attention(rng, form):
    size = WIDTH // HEADS
    inputs = {name: (F32, ["b", "s" if name == "q" else "t", WIDTH]) for name in "qkv"}
    operands, constants = ["q", "k", "v"], {}
    if form == "bias":
        constants["bias"] = normal(rng, 3 * WIDTH)
        operands.append("bias")
    elif form == "mask":
        inputs["mask"] = (np.int32, ["b", "t"])
        operands += ["", "mask"]
    elif form == "cache":
        inputs |= {name: (F32, ["b", HEADS, "p", size]) for name in ("pk", "pv")}
        operands += ["", "", "", "pk", "pv"]
    pair = Pair(
        node_model(
            "MultiHeadAttention",
            inputs,
            outputs=["y", "key", "value"] if form == "cache" else ["y"],
            constants=constants,
            operands=operands,
            domain=DOMAIN,
            num_heads=HEADS,
            unidirectional=int(form == "cache"),
        )
    )
    for b, s, t in ((1, 1, 1), (2, 7, 7), (3, 17, 9)):
        length = s if form == "cache" else t
        feeds = {"q": normal(rng, b, s, WIDTH)}
        feeds |= {name: normal(rng, b, length, WIDTH) for name in "kv"}
        if form == "mask":
            feeds["mask"] = some(rng, b, t)
        elif form == "cache":
            feeds |= {name: normal(rng, b, HEADS, 5, size) for name in ("pk", "pv")}
        pair.assert_close(BOUND, **feeds)


@pytest.mark.parametrize(
    ("rotary", "window", "packed"), [slow(0, -1, False), slow(1, -1, True), (1, 3, False)]
)
def test_group_query_attention(rng, rotary, window, packed):
    heads, groups, size = 4, 2, 16
    value = helper.make_tensor_value_info
    widths = {"q": heads * size, "k": groups * size, "v": groups * size}
    if packed:
        widths = {"q": (heads + 2 * groups) * size}
    inputs = [value(name, TensorProto.FLOAT, ["b", "s", width]) for name, width in widths.items()]
    inputs += [value(name, TensorProto.FLOAT, ["b", groups, "p", size]) for name in ("pk", "pv")]
    inputs += [
        value("mask", TensorProto.INT64, ["b", "t"]),
        value("last", TensorProto.INT32, ["b"]),
    ]
    node = helper.make_node(
        "GroupQueryAttention",
        [
            *("q", "" if packed else "k", "" if packed else "v", "pk", "pv", "last", "total"),
            *(("cos", "sin") if rotary else ()),
        ],
        ["y", "key", "value"],
        domain=DOMAIN,
        num_heads=heads,
        kv_num_heads=groups,
        do_rotary=rotary,
        local_window_size=window,
    )
    nodes = [
        helper.make_node("Shape", ["mask"], ["length"], start=1, end=2),
        helper.make_node("Cast", ["length"], ["total"], to=TensorProto.INT32),
        node,
    ]
    tables = {"cos": normal(rng, 32, size // 2), "sin": normal(rng, 32, size // 2)}
    graph = helper.make_graph(
        nodes,
        "g",
        inputs,
        [value(name, TensorProto.FLOAT, None) for name in ("y", "key", "value")],
        [onnx.numpy_helper.from_array(array, name) for name, array in tables.items()],
    )
    pair = Pair(
        helper.make_model(
            graph,
            opset_imports=[helper.make_opsetid("", 21), helper.make_opsetid(DOMAIN, 1)],
            ir_version=10,
        )
    )
    # A prompt, a first step, steps of one and of several tokens.
    for b, s, p in ((1, 5, 0), (2, 1, 6), (1, 1, 3), (2, 4, 0)):
        feeds = {name: normal(rng, b, s, width) for name, width in widths.items()}
        feeds |= {name: normal(rng, b, groups, p, size) for name in ("pk", "pv")}
        pair.assert_close(
            BOUND,
            **feeds,
            mask=np.ones((b, s + p), np.int64),
            last=np.full(b, s + p - 1, np.int32),
        )


def test_group_query_attention_reads_the_whole_length_at_run_time(rng):
    heads, groups, size = 4, 2, 8
    inputs = {"q": (F32, ["b", "s", heads * size])}
    inputs |= {name: (F32, ["b", "s", groups * size]) for name in ("k", "v")}
    inputs |= {name: (F32, ["b", groups, "p", size]) for name in ("pk", "pv")}
    inputs |= {"last": (np.int32, ["b"]), "total": (np.int32, [])}
    model = node_model(
        *("GroupQueryAttention", inputs, ("y", "key", "value")),
        **{"domain": DOMAIN, "num_heads": heads, "kv_num_heads": groups, "softcap": 4.0},
    )
    pair = Pair(model)
    for b, s, p in ((2, 5, 0), (1, 1, 6)):
        feeds = {"q": normal(rng, b, s, heads * size)}
        feeds |= {name: normal(rng, b, s, groups * size) for name in ("k", "v")}
        feeds |= {name: normal(rng, b, groups, p, size) for name in ("pk", "pv")}
        last, total = np.full(b, s + p - 1, np.int32), np.array(s + p, np.int32)
        pair.assert_close(BOUND, **feeds, last=last, total=total)


@pytest.mark.parametrize("interleaved", [0, 1])
def test_rotary_embedding(rng, interleaved):
    tables = {"cos": normal(rng, 32, 3), "sin": normal(rng, 32, 3)}
    pair = Pair(
        node_model(
            "RotaryEmbedding",
            {"x": (F32, ["b", "s", WIDTH]), "position": (np.int64, ["b", "s"])},
            constants=tables,
            domain=DOMAIN,
            interleaved=interleaved,
        )
    )
    for b, s in SIZES:
        pair.assert_close(BOUND, x=normal(rng, b, s, WIDTH), position=rng.integers(0, 32, (b, s)))
    first = Pair(
        node_model(
            "RotaryEmbedding",
            {"x": (F32, ["b", HEADS, "s", 6]), "position": (np.int64, [1])},
            constants=tables,
            domain=DOMAIN,
            interleaved=interleaved,
        )
    )
    first.assert_close(BOUND, x=normal(rng, 2, HEADS, 7, 6), position=np.array([3]))
