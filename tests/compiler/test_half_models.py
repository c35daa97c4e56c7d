"""Whole models whose weights, inputs and results are floats of 16 bits."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import onnx
import onnxruntime
import pytest
from graphs import Compiled, graph
from tolerances import MODEL_REL, model_error

_TYPES = {"float16": np.dtype(np.float16), "bfloat16": np.dtype(ml_dtypes.bfloat16)}
_WIDTH, _HEADS, _WORDS = 24, 3, 50

_ENCODER = f"""g (int64[n,t] ids, T[n,t] mask) => (T[n,t,{_WIDTH}] y) {{
    e = Gather(words, ids)
    x = LayerNormalization<epsilon=0.001>(e, gain, shift)
    shape = Shape(ids)
    split = Concat<axis=0>(shape, heads)
    q0 = MatMul(x, wq) q1 = Reshape(q0, split) q = Transpose<perm=[0,2,1,3]>(q1)
    k0 = MatMul(x, wk) k1 = Reshape(k0, split) k = Transpose<perm=[0,2,3,1]>(k1)
    v0 = MatMul(x, wv) v1 = Reshape(v0, split) v = Transpose<perm=[0,2,1,3]>(v1)
    s0 = MatMul(q, k) s1 = Mul(s0, scale)
    m = Unsqueeze(mask, axes) hidden = Sub(one, m) far = Mul(hidden, low)
    s = Add(s1, far) p = Softmax<axis=-1>(s)
    c0 = MatMul(p, v) c1 = Transpose<perm=[0,2,1,3]>(c0)
    joined = Concat<axis=0>(shape, width)
    c = Reshape(c1, joined) o = MatMul(c, wo) r = Add(o, x)
    f0 = MatMul(r, w1) f1 = Add(f0, b1) f2 = Div(f1, root) f3 = Erf(f2) f4 = Add(f3, one)
    f5 = Mul(f1, f4) f6 = Mul(f5, half) f7 = MatMul(f6, w2) f = Add(f7, r)
    y = LayerNormalization<epsilon=0.001>(f, gain, shift)
}}"""

_IMAGES = """g (T[n,3,h,w] x) => (T[n,5] y) {
    a = Conv<kernel_shape=[3,3], strides=[2,2], pads=[1,1,1,1]>(x, k1, c1)
    b = BatchNormalization(a, gain8, shift8, shift8, var8) c = Relu(b)
    d = Conv<kernel_shape=[3,3], pads=[1,1,1,1], group=8>(c, k2) e = HardSwish(d)
    f = Conv<kernel_shape=[1,1]>(e, k3) g1 = Add(f, c)
    p = MaxPool<kernel_shape=[2,2], strides=[2,2]>(g1) q = GlobalAveragePool(p)
    r = Flatten<axis=1>(q) y = Gemm<transB=1>(r, dense, bias)
}"""


def _weights(name: str, rng: np.random.Generator) -> dict[str, np.ndarray]:
    """Return weights in float32."""

    def normal(*shape: int) -> np.ndarray:
        return rng.standard_normal(shape) / np.sqrt(shape[0] if len(shape) == 2 else 3.0)

    if name == "encoder":
        w = _WIDTH
        real = {
            "words": normal(_WORDS, w) * 5,
            **{each: normal(w, w) for each in ("wq", "wk", "wv", "wo")},
            **{"w1": normal(w, 4 * w), "b1": normal(4 * w), "w2": normal(4 * w, w)},
            **{"gain": 1 + normal(w) / 4, "shift": normal(w), "scale": (w / _HEADS) ** -0.5},
            **{"one": 1.0, "half": 0.5, "low": -1e4, "root": 2**0.5},
        }
    else:
        real = {
            **{"k1": normal(8, 3, 3, 3), "c1": normal(8), "k2": normal(8, 1, 3, 3)},
            **{"k3": normal(8, 8, 1, 1), "dense": normal(5, 8), "bias": normal(5)},
            **{"gain8": 1 + normal(8) / 4, "shift8": normal(8), "var8": 1 + normal(8) ** 2},
        }
    return {key: np.asarray(value, np.float32) for key, value in real.items()}


_INTEGERS = {
    "heads": np.array([_HEADS, _WIDTH // _HEADS]),
    "width": np.array([_WIDTH]),
    "axes": np.array([1, 2]),
}


def _model(text: str, weights: dict[str, np.ndarray], dtype: str) -> onnx.ModelProto:
    used = {name: value for name, value in _INTEGERS.items() if name in text}
    return graph(text.replace("T[", f"{dtype.replace('float32', 'float')}["), **weights, **used)


def _oracle(model: onnx.ModelProto) -> onnxruntime.InferenceSession:
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    return onnxruntime.InferenceSession(
        model.SerializeToString(), options, providers=["CPUExecutionProvider"]
    )


def _feeds(name: str, rng: np.random.Generator, sizes: tuple[int, ...]) -> dict[str, np.ndarray]:
    if name == "images":
        n, h, w = sizes
        return {"x": rng.standard_normal((n, 3, h, w)).astype(np.float32)}
    mask = (rng.random(sizes) < 0.8).astype(np.float32)
    mask[:, 0] = 1
    return {"ids": rng.integers(0, _WORDS, sizes), "mask": mask}


def _narrow(arrays: dict[str, np.ndarray], dtype: np.dtype) -> dict[str, np.ndarray]:
    return {k: a.astype(dtype) if a.dtype == np.float32 else a for k, a in arrays.items()}


@pytest.mark.parametrize("dtype", _TYPES)
@pytest.mark.parametrize(
    ("name", "text", "sizes"),
    [
        ("encoder", _ENCODER, [(1, 1), (2, 7), (3, 37)]),
        ("images", _IMAGES, [(1, 4, 4), (2, 17, 23), (5, 32, 16)]),
    ],
    ids=["encoder", "images"],
)
def test_a_model_of_16_bits_is_as_good_as_its_weights(name, text, sizes, dtype, rng):
    # What is computed exactly with the same weights and inputs, and what ONNX Runtime makes of it.
    narrow = _narrow(_weights(name, rng), _TYPES[dtype])
    exact = _oracle(_model(text, {k: a.astype(np.float32) for k, a in narrow.items()}, "float32"))
    model = _model(text, narrow, dtype)
    run = Compiled(model)
    # Its processor kernels know few operators of bfloat16.
    peer = _oracle(model) if dtype == "float16" else None
    for each in sizes:
        feeds = _narrow(_feeds(name, rng, each), _TYPES[dtype])
        wide = {k: a.astype(np.float32) if a.dtype.itemsize == 2 else a for k, a in feeds.items()}
        (got,), (want,) = run(**feeds), exact.run(None, wide)
        assert got.dtype == _TYPES[dtype]
        assert model_error(got, want) <= MODEL_REL[dtype], each
        if peer is not None:
            assert model_error(got, peer.run(None, feeds)[0]) <= MODEL_REL[dtype], each
