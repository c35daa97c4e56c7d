"""Fourier transforms of signals of symbolic lengths, against NumPy in double precision."""

from __future__ import annotations

import numpy as np
import pytest
from node_models import Pair, node_model
from onnx import TensorProto
from tolerances import MODEL_REL, model_error

import moonpoly
from moonpoly.error import MoonPolyError, UnsupportedError

BOUND = MODEL_REL["float32"]
F32, I64 = np.float32, np.int64
# A power of two, others, and a prime.
LENGTHS = [1, 2, 8, 12, 31, 200]


def complex_of(x):
    return x[..., 0] + 1j * x[..., 1] if x.shape[-1] == 2 else x[..., 0].astype(np.float64)


def parts_of(x):
    return np.stack([x.real, x.imag], axis=-1)


def assert_close(got, want):
    assert got.shape == want.shape
    assert model_error(got, want) <= BOUND


@pytest.mark.parametrize("parts", [1, 2])
@pytest.mark.parametrize("inverse", [0, 1])
def test_whole_spectra(rng, parts, inverse):
    inputs = {"x": (F32, ["b", "n", "k", parts])}
    exe = moonpoly.compile(node_model("DFT", inputs, opset=17, axis=1, inverse=inverse))
    for n in LENGTHS:
        x = rng.standard_normal((2, n, 3, parts)).astype(F32)
        transform = np.fft.ifft if inverse else np.fft.fft
        assert_close(exe(x=x)["y"], parts_of(transform(complex_of(x), axis=1)))


def test_halves_of_spectra_forth_and_back(rng):
    forth = moonpoly.compile(node_model("DFT", {"x": (F32, ["b", "n", 1])}, opset=20, onesided=1))
    back = moonpoly.compile(
        node_model("DFT", {"x": (F32, ["b", "n", 2])}, opset=20, onesided=1, inverse=1)
    )
    for n in LENGTHS[1:]:
        x = rng.standard_normal((3, n, 1)).astype(F32)
        spectrum = parts_of(np.fft.rfft(complex_of(x), axis=1))
        assert_close(forth(x=x)["y"], spectrum)
        want = np.fft.irfft(complex_of(spectrum), axis=1)[..., None]
        assert_close(back(x=spectrum.astype(F32))["y"], want)


@pytest.mark.parametrize("onesided", [0, 1])
def test_length_and_axis_may_be_known_at_run_time_only(rng, onesided):
    inputs = {"x": (F32, ["a", "b", 1]), "length": (I64, []), "axis": (I64, [])}
    exe = moonpoly.compile(node_model("DFT", inputs, opset=20, onesided=onesided))
    x = rng.standard_normal((6, 9, 1)).astype(F32)
    transform = np.fft.rfft if onesided else np.fft.fft
    for length, axis in ((4, 0), (13, 0), (9, 1), (5, -2)):
        got = exe(x=x, length=np.array(length), axis=np.array(axis))["y"]
        real_axis = axis if axis >= 0 else axis + 3
        assert_close(got, parts_of(transform(complex_of(x), length, real_axis)))
    with pytest.raises(MoonPolyError, match="axis must be one of a signal"):
        exe(x=x, length=np.array(4), axis=np.array(2))


def test_half_a_spectrum_is_of_real_signals():
    model = node_model("DFT", {"x": (F32, ["b", "n", 2])}, opset=20, onesided=1)
    with pytest.raises(UnsupportedError, match=r"DFT.*'node'.*half a spectrum"):
        moonpoly.compile(model)


@pytest.mark.parametrize("onesided", [0, 1])
def test_frames_of_a_signal(rng, onesided):
    window = np.hanning(12).astype(F32)
    inputs = {"x": (F32, ["b", "n", 1])}
    constants = {"step": np.array(5), "window": window}
    exe = moonpoly.compile(
        node_model("STFT", inputs, constants=constants, opset=17, onesided=onesided)
    )
    transform = np.fft.rfft if onesided else np.fft.fft
    for n in (12, 16, 17, 61):
        x = rng.standard_normal((2, n, 1)).astype(F32)
        starts = range(0, n - 12 + 1, 5)
        frames = np.stack([x[:, at : at + 12, 0] for at in starts], axis=1)
        assert_close(exe(x=x)["y"], parts_of(transform(frames * window)))
    with pytest.raises(MoonPolyError, match="frames"):
        exe(x=np.zeros((1, 7, 1), F32))


def test_frames_without_a_window_of_a_length_found_at_run_time(rng):
    inputs = {"x": (F32, ["b", "n", 1]), "step": (I64, []), "length": (I64, [])}
    operands = ["x", "step", "", "length"]
    exe = moonpoly.compile(node_model("STFT", inputs, operands=operands, opset=17))
    x = rng.standard_normal((1, 40, 1)).astype(F32)
    for step, length in ((3, 16), (40, 40), (7, 5)):
        frames = [x[:, at : at + length, 0] for at in range(0, 40 - length + 1, step)]
        got = exe(x=x, step=np.array(step), length=np.array(length))["y"]
        assert_close(got, parts_of(np.fft.rfft(np.stack(frames, axis=1))))


def test_triangles_of_the_mel_scale():
    names = ["bins", "length", "rate", "low", "high"]
    types = [I64, I64, I64, F32, F32]
    inputs = {name: (dtype, []) for name, dtype in zip(names, types, strict=True)}
    pair = Pair(node_model("MelWeightMatrix", inputs, opset=17))
    for values in ((8, 16, 8192, 0.0, 4096.0), (40, 400, 16000, 60.0, 7600.0)):
        feeds = {n: np.array(v, t) for n, t, v in zip(names, types, values, strict=True)}
        pair.assert_close(BOUND, **feeds)
    feeds["high"] = np.array(20000.0, F32)
    with pytest.raises(MoonPolyError, match="beyond the 201 bins"):
        pair.executable(**feeds)


@pytest.mark.parametrize("op", ["HannWindow", "HammingWindow", "BlackmanWindow"])
def test_windows_of_a_size_found_at_run_time(op):
    pair = Pair(node_model(op, {"n": (I64, [])}, opset=17, output_datatype=TensorProto.FLOAT))
    for size in (2, 15, 400):
        pair.assert_close(BOUND, n=np.array(size))
