"""Operators on images of symbolic sizes, against ONNX Runtime or the standard's reference."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from node_models import Pair, node_model
from onnx import TensorProto, helper
from tolerances import MODEL_REL

import moonpoly
from moonpoly.error import MoonPolyError

BOUND = MODEL_REL["float32"]
F32, I64 = np.float32, np.int64
IMAGE = ["n", 4, "h", "w"]


def floats(rng, *shape):
    return rng.standard_normal(shape).astype(F32)


@pytest.mark.skipif(onnx.defs.onnx_opset_version() < 28, reason="this onnx has no such mode")
def test_blocks_move_within_their_channel(rng):
    model = node_model(
        "SpaceToDepth", {"x": (F32, ["n", 3, "h", "w"])}, opset=28, blocksize=2, mode="CRD"
    )
    exe = moonpoly.compile(model)
    for n, h, w in ((1, 2, 2), (2, 4, 6), (3, 10, 2)):
        x = floats(rng, n, 3, h, w)
        want = x.reshape(n, 3, h // 2, 2, w // 2, 2).transpose(0, 1, 3, 5, 2, 4)
        np.testing.assert_array_equal(exe(x=x)["y"], want.reshape(n, 12, h // 2, w // 2))


@pytest.mark.parametrize(
    "attrs",
    [
        {"strides": [2, 1, 3], "pads": [1, 0, 1, 0, 1, 1], "output_padding": [1, 0, 2]},
        {"dilations": [1, 2, 1], "group": 2},
        {"auto_pad": "SAME_UPPER", "strides": [2, 2, 2]},
    ],
    ids=["strides", "groups", "auto_pad"],
)
def test_volumes_are_convolved_back(rng, attrs):
    weight = floats(rng, 4, 3, 2, 3, 3)
    inputs = {"x": (F32, ["n", 4, "d", "h", "w"])}
    constants = {"w": weight, "b": floats(rng, 3 * attrs.get("group", 1))}
    pair = Pair(node_model("ConvTranspose", inputs, constants=constants, **attrs))
    for shape in ((1, 4, 1, 1, 1), (2, 4, 3, 2, 5)):
        pair.assert_close(BOUND, x=floats(rng, *shape))


@pytest.mark.parametrize(
    "attrs",
    [{"strides": [2, 1], "pads": [1, 0, 0, 1], "group": 2}, {"auto_pad": "SAME_UPPER"}],
    ids=["groups", "auto_pad"],
)
def test_images_are_convolved_back_by_weights_of_any_size(rng, attrs):
    inputs = {"x": (F32, ["n", "c", "h", "w"]), "w": (F32, ["c2", "m", "kh", "kw"])}
    strides = attrs.get("strides", [3, 2])
    pair = Pair(node_model("ConvTranspose", inputs, **(attrs | {"strides": strides})))
    for c, m, kh, kw in ((4, 3, 3, 2), (2, 1, 1, 5), (6, 2, 2, 1)):
        pair.assert_close(BOUND, x=floats(rng, 2, c, 5, 4), w=floats(rng, c, m, kh, kw))
    with pytest.raises(MoonPolyError, match="c and c2 must be equal, got 3 and 4"):
        pair.executable(x=floats(rng, 1, 3, 5, 4), w=floats(rng, 4, 1, 3, 3))
    if "group" in attrs:
        with pytest.raises(MoonPolyError, match="must be equal"):
            pair.executable(x=floats(rng, 1, 3, 5, 4), w=floats(rng, 3, 1, 3, 3))


@pytest.mark.parametrize("auto_pad", ["NOTSET", "SAME_UPPER"])
def test_a_transposed_convolution_gives_the_shape_that_is_asked_for(rng, auto_pad):
    weight = floats(rng, 4, 2, 3, 3)
    attrs = {"output_shape": [10, 9], "strides": [3, 2], "auto_pad": auto_pad}
    model = node_model("ConvTranspose", {"x": (F32, IMAGE)}, constants={"w": weight}, **attrs)
    pair = Pair(model)
    for n, h, w in ((1, 3, 4), (2, 4, 5)):
        pair.assert_close(BOUND, x=floats(rng, n, 4, h, w))


def test_blocks_are_added_up(rng):
    attrs = {"strides": [2, 1], "pads": [1, 0, 1, 2], "dilations": [1, 2]}
    image = np.array([9, 8])
    counts = [(9 + 2 - 3) // 2 + 1, (8 + 2 - 3) // 1 + 1]
    inputs = {"x": (F32, ["n", 2 * 6, "blocks"]), "image": (I64, [2])}
    pair = Pair(node_model("Col2Im", inputs, constants={"block": np.array([3, 2])}, **attrs))
    for n in (1, 3):
        pair.assert_close(BOUND, x=floats(rng, n, 12, np.prod(counts)), image=image)
    with pytest.raises(MoonPolyError, match="node"):
        pair.executable(x=floats(rng, 1, 12, 5), image=image)


@pytest.mark.parametrize("mode", ["avg", "max"])
@pytest.mark.parametrize("frame", ["half_pixel", "output_half_pixel"])
@pytest.mark.parametrize("ratio", [0, 2])
def test_regions_are_pooled(rng, mode, frame, ratio):
    inputs = {"x": (F32, IMAGE), "r": (F32, ["k", 4]), "b": (I64, ["k"])}
    attrs = {
        **{"mode": mode, "coordinate_transformation_mode": frame, "sampling_ratio": ratio},
        **{"output_height": 3, "output_width": 2, "spatial_scale": 0.5},
    }
    pair = Pair(node_model("RoiAlign", inputs, opset=16, **attrs))
    for n, h, w, count in ((1, 1, 1, 1), (2, 13, 9, 5), (2, 7, 16, 0)):
        corners = np.sort(rng.uniform(-4, 30, (count, 2, 2)), axis=1).reshape(count, 4)
        feeds = {"r": corners.astype(F32), "b": rng.integers(0, n, count)}
        pair.assert_close(BOUND, x=floats(rng, n, 4, h, w), **feeds)


@pytest.mark.parametrize(
    ("regions", "images", "message"),
    [
        ([[0, 0, 2, 2]], [1], "batch_indices.*is 1, expected one of 1 images"),
        ([[0, 0, np.inf, 2]], [0], "no part of an image"),
    ],
)
def test_a_region_of_no_image_is_an_error(regions, images, message):
    inputs = {"x": (F32, IMAGE), "r": (F32, ["k", 4]), "b": (I64, ["k"])}
    exe = moonpoly.compile(node_model("RoiAlign", inputs))
    feeds = {"r": np.array(regions, F32), "b": np.array(images)}
    with pytest.raises(MoonPolyError, match=message):
        exe(x=np.zeros((1, 4, 5, 5), F32), **feeds)


@pytest.mark.parametrize("align_corners", [0, 1])
@pytest.mark.parametrize("rank", [2, 3])
def test_grids_are_mapped(rng, align_corners, rank):
    inputs = {"theta": (F32, ["n", rank, rank + 1]), "size": (I64, [rank + 2])}
    model = node_model("AffineGrid", inputs, align_corners=align_corners)
    pair = Pair(model)
    for n, *extents in ((1, 2, 5, 3), (3, 7, 2, 4)):
        size = np.array([n, 6, *extents[:rank]])
        pair.assert_close(BOUND, theta=floats(rng, n, rank, rank + 1), size=size)


@pytest.mark.parametrize(("groups", "offset_groups", "masked"), [(1, 1, False), (2, 2, True)])
def test_windows_are_deformed(rng, groups, offset_groups, masked):
    out = ["oh", "ow"]
    inputs = {"x": (F32, IMAGE), "o": (F32, ["n", offset_groups * 12, *out])}
    if masked:
        inputs["m"] = (F32, ["n", offset_groups * 6, *out])
    constants = {"w": floats(rng, 6, 4 // groups, 3, 2), "b": floats(rng, 6)}
    operands = ["x", "w", "o", "b", *(["m"] if masked else [])]
    attrs = {
        **{"group": groups, "offset_group": offset_groups, "kernel_shape": [3, 2]},
        **{"strides": [2, 1], "pads": [1, 0, 1, 1], "dilations": [1, 2]},
    }
    model = node_model(
        "DeformConv", inputs, constants=constants, operands=operands, opset=22, **attrs
    )
    pair = Pair(model, by_reference=True)
    for n, h, w in ((1, 5, 4), (2, 8, 7)):
        size = ((h + 2 - 3) // 2 + 1, w + 1 - 3 + 1)
        feeds = {"o": 2 * floats(rng, n, offset_groups * 12, *size)}
        if masked:
            feeds["m"] = floats(rng, n, offset_groups * 6, *size)
        pair.assert_close(BOUND, x=floats(rng, n, 4, h, w), **feeds)


@pytest.mark.parametrize(
    "attrs",
    [
        {"kernel_shape": [2, 3], "strides": [2, 2], "pads": [1, 1, 0, 1]},
        {"kernel_shape": [3, 2], "dilations": [2, 1], "ceil_mode": 1, "strides": [2, 3]},
        {"kernel_shape": [2, 2], "auto_pad": "SAME_UPPER", "storage_order": 1},
    ],
    ids=["pads", "ceil", "column_major"],
)
def test_maxima_say_where_they_lie(rng, attrs):
    pair = Pair(
        node_model(
            "MaxPool",
            {"x": (F32, IMAGE)},
            ["y", "i"],
            output_types=[TensorProto.FLOAT, TensorProto.INT64],
            **attrs,
        )
    )
    for n, h, w in ((1, 5, 3), (2, 8, 7)):
        # Few values: of equal ones the first is meant.
        pair.assert_equal(x=rng.integers(0, 4, (n, 4, h, w)).astype(F32))


def test_maxima_are_put_back(rng):
    attrs = {"kernel_shape": [2, 3], "strides": [2, 2], "pads": [0, 1, 0, 0]}
    inputs = {"x": (F32, IMAGE), "i": (I64, IMAGE)}
    pair = Pair(node_model("MaxUnpool", inputs, **attrs))
    for n, h, w in ((1, 1, 1), (2, 3, 4)):
        count = n * 4 * (2 * h) * (2 * w)
        places = rng.permutation(count)[: n * 4 * h * w].reshape(n, 4, h, w)
        pair.assert_equal(x=floats(rng, n, 4, h, w), i=places)
    with pytest.raises(MoonPolyError, match="I holds 16, expected an element"):
        pair.executable(x=np.zeros((1, 4, 1, 1), F32), i=np.full((1, 4, 1, 1), 16))


def test_maxima_are_put_into_a_larger_image(rng):
    inputs = {"x": (F32, IMAGE), "i": (I64, IMAGE), "size": (I64, [4])}
    model = node_model("MaxUnpool", inputs, kernel_shape=[2, 2], strides=[2, 2])
    pair = Pair(model, by_reference=True)
    x = floats(rng, 1, 4, 2, 3)
    places = rng.permutation(4 * 24)[:24].reshape(x.shape)
    pair.assert_equal(x=x, i=places, size=np.array([1, 4, 5, 7]))


@pytest.mark.parametrize("dtype", [TensorProto.DOUBLE, TensorProto.BOOL, None])
def test_a_diagonal_is_of_the_type_that_is_asked_for(rng, dtype):
    attrs = {"k": 1} if dtype is None else {"k": -1, "dtype": dtype}
    kind = dtype or TensorProto.INT32
    inputs = {"x": (np.int32, ["m", "n"])}
    exe = moonpoly.compile(node_model("EyeLike", inputs, output_types=[kind], **attrs))
    for shape in ((1, 1), (3, 5), (4, 2)):
        want = np.eye(*shape, k=attrs["k"], dtype=helper.tensor_dtype_to_np_dtype(kind))
        got = exe(x=np.zeros(shape, np.int32))["y"]
        assert got.dtype == want.dtype
        np.testing.assert_array_equal(got, want)


def test_an_average_is_a_sum_in_order_and_one_division(rng):
    """To the last bit, which says what a tie becomes where it is quantised next."""
    model = node_model(
        "AveragePool",
        {"x": (F32, ["n", 4, "h", "w"])},
        kernel_shape=[3, 2],
        pads=[1, 1, 1, 1],
        strides=[2, 1],
    )
    exe = moonpoly.compile(model)
    for n, h, w in ((1, 1, 1), (2, 7, 9), (3, 8, 33)):
        x = floats(rng, n, 4, h, w)
        got = exe(x=x)["y"]
        for y, z in np.ndindex(got.shape[2:]):
            part = x[:, :, max(2 * y - 1, 0) : 2 * y + 2, max(z - 1, 0) : z + 1]
            terms = np.moveaxis(part.reshape(n, 4, -1), -1, 0)
            total = np.zeros((n, 4), F32)
            for term in terms:
                total = total + term
            np.testing.assert_array_equal(got[:, :, y, z], total / F32(len(terms)))
