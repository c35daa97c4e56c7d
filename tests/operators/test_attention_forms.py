"""Attention in the forms that exporters write: every mask, cache, bias and packing."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from node_models import Form, assert_forms_match, node_model
from onnx import TensorProto, helper
from tolerances import MODEL_REL

F32, I32 = np.float32, np.int32
DOMAIN = "com.microsoft"
BOUND = MODEL_REL["float32"] / 10
WIDTH, HEADS = 24, 4
SIZE = WIDTH // HEADS
# batch, rows, and columns or what is cached
SIZES = [(1, 1, 1), (2, 7, 4), (3, 1, 9)]


def normal(rng, *shape):
    return rng.standard_normal(shape).astype(F32)


def some(rng, *shape):
    """Zeros and ones, with a one in every row."""
    return np.maximum(rng.integers(0, 2, shape), np.arange(shape[-1]) == 0).astype(I32)


def one(size, batch):
    return batch if size == "b" else size


def attention(rng, inputs, operands, feeds, widths=(WIDTH,) * 3, outputs=("y",), **attrs):
    total = sum(widths)
    model = node_model(
        "Attention",
        {"x": (F32, ["b", "s", WIDTH]), **inputs},
        outputs=outputs,
        constants={"w": normal(rng, WIDTH, total) * F32(0.3), "bias": normal(rng, total)},
        operands=["x", "w", "bias", *operands],
        domain=DOMAIN,
        num_heads=HEADS,
        **attrs,
    )
    return Form(model, lambda b, s, p: {"x": normal(rng, b, s, WIDTH), **feeds(b, s, p)})


def test_attention(rng):
    past = {"past": (F32, [2, "b", HEADS, "p", SIZE])}
    both = ["y", "present"]

    def cached(b, s, p):
        return {"past": normal(rng, 2, b, HEADS, p, SIZE)}

    def added(batch, heads):
        shape = {"added": (F32, [batch, heads, "s", "s"])}
        return shape, lambda b, s, _: {"added": normal(rng, one(batch, b), heads, s, s)}

    forms = {
        "cache_and_columns": attention(
            rng,
            {"mask": (I32, ["b", "t"]), **past},
            ["mask", "past"],
            lambda b, s, p: {"mask": some(rng, b, s + p), **cached(b, s, p)},
            outputs=both,
            unidirectional=1,
        ),
        "cache_and_rows": attention(
            rng,
            {"mask": (I32, ["b", "s", "t"]), **past},
            ["mask", "past"],
            lambda b, s, p: {"mask": some(rng, b, s, s + p), **cached(b, s, p)},
            outputs=both,
        ),
        "fill": attention(
            rng,
            {"mask": (I32, ["b", "s"])},
            ["mask"],
            lambda b, s, _: {"mask": some(rng, b, s)},
            mask_filter_value=-3.4e38,
        ),
        "widths": attention(
            rng, {}, [], lambda *_: {}, (16, 16, 32), qkv_hidden_sizes=[16, 16, 32]
        ),
    }
    for batch, heads in (("b", HEADS), ("b", 1), (1, 1)):
        inputs, feeds = added(batch, heads)
        forms[f"added_{batch}_{heads}"] = attention(rng, inputs, ["", "", "added"], feeds)
    assert_forms_match(forms, SIZES, BOUND)


def multi_head(rng, inputs, operands, feeds, bias=0, outputs=("y",), **attrs):
    model = node_model(
        "MultiHeadAttention",
        inputs,
        outputs=outputs,
        constants={"bias": normal(rng, bias)} if bias else {},
        operands=operands,
        domain=DOMAIN,
        num_heads=HEADS,
        **attrs,
    )
    return Form(model, feeds)


APART = {
    "q": (F32, ["b", "s", WIDTH]),
    "k": (F32, ["b", "t", WIDTH]),
    "v": (F32, ["b", "t", WIDTH]),
}


def test_multi_head_attention(rng):
    def apart(b, s, t, value=WIDTH):
        return {
            "q": normal(rng, b, s, WIDTH),
            "k": normal(rng, b, t, WIDTH),
            "v": normal(rng, b, t, value),
        }

    def masked(shape, values):
        return multi_head(
            rng,
            {**APART, "m": (I32, shape)},
            ["q", "k", "v", "", "m"],
            lambda b, s, t: {**apart(b, s, t), "m": values(b, s, t)},
        )

    forms = {
        "plain": multi_head(rng, APART, list("qkv"), apart, scale=0.3),
        "bias": multi_head(rng, APART, [*"qkv", "bias"], apart, bias=3 * WIDTH),
        "columns": masked(["b", "t"], lambda b, s, t: some(rng, b, t)),
        "ends": masked(["b"], lambda b, s, t: rng.integers(1, t + 1, b).astype(I32)),
        "rows": masked(["b", "s", "t"], lambda b, s, t: some(rng, b, s, t)),
        # Given more keys than rows, ONNX Runtime lets the last row see all of them.
        "causal": multi_head(
            rng,
            {name: (F32, ["b", "least" if name != "q" else "most", WIDTH]) for name in "qkv"},
            list("qkv"),
            lambda b, s, t: apart(b, max(s, t), min(s, t)),
            unidirectional=1,
        ),
        "value": multi_head(
            rng,
            {**APART, "v": (F32, ["b", "t", 32])},
            [*"qkv", "bias"],
            lambda b, s, t: apart(b, s, t, 32),
            bias=2 * WIDTH + 32,
        ),
        "heads": multi_head(
            rng,
            {"q": APART["q"], **{n: (F32, ["b", HEADS, "t", SIZE]) for n in "kv"}},
            list("qkv"),
            lambda b, s, t: {
                "q": normal(rng, b, s, WIDTH),
                **{n: normal(rng, b, HEADS, t, SIZE) for n in "kv"},
            },
        ),
    }
    for batch, heads in (("b", HEADS), (1, HEADS), ("b", 1), (1, 1)):
        forms[f"added_{batch}_{heads}"] = multi_head(
            rng,
            {**APART, "m": (F32, [batch, heads, "s", "t"])},
            ["q", "k", "v", "", "", "m"],
            lambda b, s, t, batch=batch, heads=heads: {
                **apart(b, s, t),
                "m": normal(rng, one(batch, b), heads, s, t),
            },
        )
    assert_forms_match(forms, [(1, 1, 1), (2, 7, 4), (3, 4, 9)], BOUND)


def test_multi_head_attention_with_a_cache(rng):
    inputs = {name: (F32, ["b", "s", WIDTH]) for name in "qkv"}
    inputs |= {name: (F32, ["b", HEADS, "p", SIZE]) for name in ("pk", "pv")}

    def feeds(b, s, p, **more):
        new = {name: normal(rng, b, s, WIDTH) for name in "qkv"}
        return new | {name: normal(rng, b, HEADS, p, SIZE) for name in ("pk", "pv")} | more

    outputs = ["y", "key", "value"]
    forms = {
        "plain": multi_head(rng, inputs, [*"qkv", "", "", "", "pk", "pv"], feeds, outputs=outputs),
        "all": multi_head(
            rng,
            {**inputs, "m": (I32, ["b", "t"])},
            [*"qkv", "bias", "m", "", "pk", "pv"],
            lambda b, s, p: feeds(b, s, p, m=some(rng, b, s + p)),
            bias=3 * WIDTH,
            outputs=outputs,
            unidirectional=1,
        ),
        "added": multi_head(
            rng,
            {**inputs, "m": (F32, ["b", 1, "s", "t"])},
            [*"qkv", "", "", "m", "pk", "pv"],
            lambda b, s, p: feeds(b, s, p, m=normal(rng, b, 1, s, s + p)),
            outputs=outputs,
        ),
    }
    assert_forms_match(forms, SIZES, BOUND)


def test_packed_operands_are_those_that_are_apart(rng):
    """ONNX Runtime doesn't run these on a CPU: the same values apart are what they are held to."""
    from moonpoly import compiler

    q, k, v = (normal(rng, 2, 5, HEADS, SIZE) for _ in range(3))
    flat = {name: x.reshape(2, 5, WIDTH) for name, x in zip("qkv", (q, k, v), strict=True)}
    apart = compiler.compile(multi_head(rng, APART, list("qkv"), None).model)(**flat)["y"]
    all_three = {"q": (F32, ["b", "s", HEADS, 3, SIZE])}
    packed = compiler.compile(multi_head(rng, all_three, ["q"], None).model)
    np.testing.assert_array_equal(packed(q=np.stack([q, k, v], axis=3))["y"], apart)
    two = {"q": APART["q"], "k": (F32, ["b", "t", HEADS, 2, SIZE])}
    packed = compiler.compile(multi_head(rng, two, list("qk"), None).model)
    np.testing.assert_array_equal(packed(q=flat["q"], k=np.stack([k, v], axis=3))["y"], apart)


Q_HEADS, KV_HEADS, HEAD = 4, 2, 16


def grouped(rng, extra=(), tables=False, packed=False, cached=True, sink=False, **attrs):
    """Return a form of GroupQueryAttention with the extra operands that ``extra`` names."""
    widths = {"q": Q_HEADS * HEAD, "k": KV_HEADS * HEAD, "v": KV_HEADS * HEAD}
    if packed:
        widths = {"q": sum(widths.values())}
    value = helper.make_tensor_value_info
    shapes = {name: ["b", "s", width] for name, width in widths.items()}
    if cached:
        shapes |= {name: ["b", KV_HEADS, "p", HEAD] for name in ("pk", "pv")}
    if "bias" in extra:
        shapes["bias"] = ["b", Q_HEADS, "s", "t"]
    inputs = [value(name, TensorProto.FLOAT, shape) for name, shape in shapes.items()]
    inputs += [
        value("mask", TensorProto.INT64, ["b", "t"]),
        value("last", TensorProto.INT32, ["b"]),
        *([value("at", TensorProto.INT64, ["b", "s"])] if "at" in extra else []),
    ]
    constants = {"sink": normal(rng, Q_HEADS)} if sink else {}
    if tables:
        constants |= {name: normal(rng, 32, HEAD // 2) for name in ("cos", "sin")}
    known = {*shapes, *extra, *constants, "last", "total"}
    order = ["q", "k", "v", "pk", "pv", "last", "total", "cos", "sin", "at", "bias", "sink"]
    nodes = [
        helper.make_node("Shape", ["mask"], ["length"], start=1, end=2),
        helper.make_node("Cast", ["length"], ["total"], to=TensorProto.INT32),
        helper.make_node(
            "GroupQueryAttention",
            [name if name in known else "" for name in order],
            ["y", "key", "value"],
            domain=DOMAIN,
            num_heads=Q_HEADS,
            kv_num_heads=KV_HEADS,
            do_rotary=int(tables),
            **attrs,
        ),
    ]
    outputs = [value(name, TensorProto.FLOAT, None) for name in ("y", "key", "value")]
    weights = [onnx.numpy_helper.from_array(array, name) for name, array in constants.items()]
    model = helper.make_model(
        helper.make_graph(nodes, "g", inputs, outputs, weights),
        opset_imports=[helper.make_opsetid("", 21), helper.make_opsetid(DOMAIN, 1)],
        ir_version=10,
    )

    def feeds(b, s, p):
        p = p if cached else 0
        sizes = {"b": b, "s": s, "p": p, "t": s + p}
        given = {
            name: normal(rng, *[sizes.get(dim, dim) for dim in shape])
            for name, shape in shapes.items()
        }
        given["mask"], given["last"] = np.ones((b, s + p), np.int64), np.full(b, s + p - 1, I32)
        if "at" in extra:
            given["at"] = np.tile(np.arange(p, p + s), (b, 1))
        return given

    return Form(model, feeds)


def test_group_query_attention(rng):
    forms = {
        "turned": grouped(rng, tables=True),
        "neighbours": grouped(rng, tables=True, packed=True, rotary_interleaved=1),
        "positions": grouped(rng, ["at"], tables=True),
        "bias": grouped(rng, ["bias"], scale=0.2),
        "cap": grouped(rng, softcap=2.0, local_window_size=3),
        "smooth": grouped(rng, smooth_softmax=1),
        "sink": grouped(rng, sink=True, local_window_size=4),
    }
    # A prompt, a first step, steps of one and of several tokens.
    assert_forms_match(forms, [(1, 5, 0), (2, 1, 6), (1, 1, 3), (2, 4, 0)], BOUND)


def test_group_query_attention_without_a_cache(rng):
    forms = {"plain": grouped(rng, cached=False), "turned": grouped(rng, tables=True, cached=False)}
    assert_forms_match(forms, [(1, 5, 0), (3, 1, 0)], BOUND)


@pytest.mark.parametrize("interleaved", [0, 1])
def test_a_part_of_each_head_is_turned(rng, interleaved):
    inputs = {"x": (F32, ["b", "s", 32]), "at": (np.int64, ["b", "s"])}
    tables = {"cos": normal(rng, 32, 2), "sin": normal(rng, 32, 2)}
    attrs = {"num_heads": 4, "rotary_embedding_dim": 4, "interleaved": interleaved}
    model = node_model("RotaryEmbedding", inputs, constants=tables, domain=DOMAIN, **attrs)

    def feeds(b, s):
        return {"x": normal(rng, b, s, 32), "at": rng.integers(0, 32, (b, s))}

    assert_forms_match({"part": Form(model, feeds)}, [(1, 1), (3, 17)], BOUND)
