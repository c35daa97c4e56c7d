"""Depthwise and small-group convolution and pooling, any number of rows and columns."""

from __future__ import annotations

import numpy as np
import pytest
from schedule.conftest import assert_close, compile_graph, symbols
from tvm import relax

PLANES = [(1, 1), (3, 5), (4, 16), (7, 7), (17, 33), (50, 40), (70, 113)]


def _windows(x, window, stride, dilation=(1, 1)):
    """Return (..., rows, columns, window rows, window columns) of a padded float64 image."""
    span = [(k - 1) * d + 1 for k, d in zip(window, dilation, strict=True)]
    view = np.lib.stride_tricks.sliding_window_view(x, span, axis=(-2, -1))
    return view[..., :: stride[0], :: stride[1], :: dilation[0], :: dilation[1]]


def _pad(x, amount, value=0.0):
    border = [(0, 0), (0, 0), (amount, amount), (amount, amount)]
    return np.pad(x.astype(np.float64), border, constant_values=value)


@pytest.mark.parametrize(
    ("size", "stride", "dilation"), [(3, 1, 1), (3, 2, 1), (5, 2, 1), (7, 1, 1), (3, 1, 2)]
)
def test_depthwise_convolution(target, size, stride, dilation, rng):
    n, h, w = symbols("nhw")
    channels = 6
    weight = rng.standard_normal((channels, 1, size, size), dtype=np.float32)
    bias = rng.standard_normal((1, channels, 1, 1), dtype=np.float32)
    padding = dilation * (size - 1) // 2
    run = compile_graph(
        target,
        [((n, channels, h, w), "float32")],
        lambda x: relax.op.nn.relu(
            relax.op.add(
                relax.op.nn.conv2d(
                    x,
                    relax.const(weight),
                    strides=stride,
                    padding=padding,
                    dilation=dilation,
                    groups=channels,
                ),
                relax.const(bias),
            )
        ),
    )
    assert list(run.rules.values()) == ["window"]
    for plane in PLANES:
        x = rng.standard_normal((2, channels, *plane), dtype=np.float32)
        view = _windows(_pad(x, padding), (size, size), (stride, stride), (dilation, dilation))
        want = np.einsum("nchwyx,cyx->nchw", view, weight[:, 0].astype(np.float64)) + bias
        assert_close(run(x), np.maximum(want, 0))


def test_convolution_of_small_groups(target, rng):
    n, h, w = symbols("nhw")
    weight = rng.standard_normal((8, 4, 3, 3), dtype=np.float32)
    run = compile_graph(
        target,
        [((n, 8, h, w), "float32")],
        lambda x: relax.op.nn.conv2d(x, relax.const(weight), padding=1, groups=2),
    )
    for plane in [(1, 1), (5, 17), (33, 20)]:
        x = rng.standard_normal((1, 8, *plane), dtype=np.float32)
        view = _windows(_pad(x, 1), (3, 3), (1, 1)).reshape(1, 2, 4, *plane, 3, 3)
        grouped = weight.reshape(2, 4, 4, 3, 3).astype(np.float64)
        want = np.einsum("ngchwyx,gocyx->ngohw", view, grouped).reshape(1, 8, *plane)
        assert_close(run(x), want, scale=2)


@pytest.mark.parametrize(("size", "stride", "padding"), [(3, 2, 1), (2, 2, 0), (3, 1, 1)])
def test_max_pooling(target, size, stride, padding, rng):
    n, h, w = symbols("nhw")
    run = compile_graph(
        target,
        [((n, 3, h, w), "float32")],
        lambda x: relax.op.nn.max_pool2d(
            x, pool_size=(size, size), strides=(stride, stride), padding=(padding, padding)
        ),
    )
    for plane in [plane for plane in PLANES if min(plane) >= size]:
        x = rng.standard_normal((2, 3, *plane), dtype=np.float32) - 3
        view = _windows(_pad(x, padding, -np.inf), (size, size), (stride, stride))
        assert_close(run(x), view.max((-2, -1)))


@pytest.mark.parametrize("count_padding", [False, True])
def test_average_pooling(target, count_padding, rng):
    n, h, w = symbols("nhw")
    run = compile_graph(
        target,
        [((n, 3, h, w), "float32")],
        lambda x: relax.op.nn.avg_pool2d(
            x,
            pool_size=(3, 3),
            strides=(1, 1),
            padding=(1, 1),
            count_include_pad=count_padding,
        ),
    )
    for plane in [(1, 1), (7, 7), (17, 33)]:
        x = rng.standard_normal((2, 3, *plane), dtype=np.float32)
        total = _windows(_pad(x, 1), (3, 3), (1, 1)).sum((-2, -1))
        ones = _windows(_pad(np.ones_like(x), 1), (3, 3), (1, 1)).sum((-2, -1))
        assert_close(run(x), total / (9 if count_padding else ones))
