"""``moonpoly bench models --check``: what matches, what differs, what is refused."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest

from moonpoly.benchmarks import model_check
from moonpoly.benchmarks.model_outputs import (
    Difference,
    compare,
    most_similar_gap,
    output_error,
    top1_gap,
)
from moonpoly.benchmarks.model_row import LEVELS, ROUNDING, Row
from moonpoly.benchmarks.peer import BenchmarkError, Peer
from moonpoly.benchmarks.rounding import shake
from moonpoly.model_registry import MODELS, Axis, Input, Model, ModelFileError
from moonpoly.model_registry.fill import normal

_DOUBLE = "g (float[n,3] x) => (float[n,3] y) { y = Add(x, x) }"
_SQUARE = "g (float[n,3] x) => (float[n,3] y) { y = Mul(x, x) }"
_REFUSED = "g (float[n,3] x) => (float[n,3] y) { y = nobody.Nothing(x) }"


@dataclass
class Written:
    """A source that gives one file after another, the last one again and again."""

    paths: list[Path]

    def path(self) -> Path:
        return self.paths.pop(0) if len(self.paths) > 1 else self.paths[0]


class Missing:
    """A source that has no file."""

    def path(self) -> Path:
        raise ModelFileError("the package is not to be had")


def _model(name, source, *, integer=False):
    operand = Input("x", "float32", ("n", 3), normal)
    return Model(name, source, (operand,), (Axis("n"),), ((1,), (2,), (5,)), integer=integer)


def _write(path, text):
    head = '< ir_version: 8, opset_import: ["" : 17, "nobody" : 1] > '
    path.write_bytes(onnx.parser.parse_model(head + text).SerializeToString())
    return path


def test_each_model_is_a_row_whatever_becomes_of_it(tmp_path, capsys):
    good = _write(tmp_path / "good.onnx", _DOUBLE)
    refused = _write(tmp_path / "refused.onnx", _REFUSED)
    models = [
        _model("good", Written([good])),
        _model("refused", Written([refused])),
        _model("missing", Missing()),
    ]
    out = tmp_path / "out.json"
    with pytest.raises(BenchmarkError, match="2 of 3 models do not match: refused, missing"):
        model_check.main(models, seed=1, threads=1, json=out)
    document = json.loads(out.read_text())
    assert document["summary"]["matched"] == 1
    assert document["summary"]["total"] == 3
    rows = {row["model"]: row for row in document["samples"]}
    assert [shape["error"] for shape in rows["good"]["shapes"]] == [0, 0, 0]
    assert all(shape["ratio"] > 0 for shape in rows["good"]["shapes"])
    assert "nobody.Nothing" in rows["refused"]["reason"]
    assert rows["missing"]["reason"] == "the package is not to be had"
    printed = capsys.readouterr().out
    assert "3/3" in printed and "matched 1" in printed
    assert "good: matches by 1e-04, error 0.000, " in printed
    assert rows["good"]["compile_cpu_s"] > 0


def test_a_model_that_computes_something_else_does_not_match(tmp_path, monkeypatch):
    double, square = (
        _write(tmp_path / f"{number}.onnx", text) for number, text in enumerate((_DOUBLE, _SQUARE))
    )
    compile_model = model_check.compile_model
    monkeypatch.setattr(
        model_check,
        "compile_model",
        lambda name, source, target, threads: compile_model(name, square, target, threads),
    )
    out = tmp_path / "out.json"
    with pytest.raises(BenchmarkError, match="1 of 1 models do not match: wrong"):
        model_check.main([_model("wrong", Written([double]))], seed=1, threads=1, json=out)
    (row,) = json.loads(out.read_text())["samples"]
    assert "at 1 the error is" in row["reason"] and "at 5 the error is" in row["reason"]


def test_a_worker_that_hangs_is_ended(tmp_path, monkeypatch):
    (tmp_path / "sleeper.py").write_text(
        "import json, sys, time\n"
        "print(json.dumps({'ready': True}), flush=True)\n"
        "sys.stdin.readline()\n"
        "print(json.dumps({'idle_cpu_s': 0, 'settle_s': 0}), flush=True)\n"
        "time.sleep(600)\n"
    )
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    with (
        Peer("sleeper", 1, "sleeper", limit_s=10) as peer,
        pytest.raises(BenchmarkError, match="'sleeper' gave no answer to 'load'"),
    ):
        peer._limit_s = 0.2
        peer.ask("load", path="")


def _judged(difference, *, integer=True, levels=(), rounding=()):
    row = Row(_model("made", Missing(), integer=integer))
    row.differences = {(1,): difference}
    for rule, spreads in ((LEVELS, levels), (ROUNDING, rounding)):
        row.spreads[rule] = {(n,): spread for n, spread in enumerate(spreads)}
    row.judge()
    assert (row.reason == "") == (row.right == [(1,)]) == (row.rule != "")
    return row


def _far(error, turn=0.0):
    return Difference(error, 0.0, turn)


def test_integer_models_may_be_as_far_off_as_onnx_runtime_is_from_itself():
    close = Difference(5e-3, 0.0)
    assert _judged(Difference(5e-5, 0.0), levels=[_far(1e-2)]).rule == "1e-04"
    # The spread is the model's: at most inputs it does not show.
    assert _judged(close, levels=[_far(0.0), _far(1e-2)]).rule == LEVELS
    assert _judged(close, levels=[_far(0.0)], rounding=[_far(6e-3)]).rule == ROUNDING
    # The strictest rule that holds is named.
    assert _judged(close, levels=[_far(1e-1)], rounding=[_far(6e-3)]).rule == ROUNDING
    refused = _judged(close, levels=[_far(4e-3)], rounding=[_far(3e-3)]).reason
    assert "at most 4.0e-03" in refused and "3.0e-03 from itself by rounding" in refused
    assert "at most 1.0e-04" in _judged(close, integer=False).reason
    assert _judged(_far(float("nan")), levels=[_far(1e-2)]).reason != ""
    assert _judged(close, levels=[_far(float("nan"))], rounding=[_far(float("inf"))]).reason != ""


def test_integer_models_must_give_the_same_answer():
    bound = [_far(1e-2, turn=2e-3)]
    flipped, turned = Difference(5e-3, 2e-2), Difference(5e-3, 0.0, 3e-3)
    assert "answer is another one, 2.0e-02" in _judged(flipped, levels=bound).reason
    assert "turned: cosine 0.997" in _judged(turned, levels=bound).reason
    assert _judged(Difference(5e-3, 9e-3, 1e-3), levels=bound).rule == LEVELS


def test_the_most_similar_vector_is_searched_among_other_inputs_too():
    rng = np.random.default_rng(7)
    want = rng.standard_normal((4, 16))
    near = want[:1] + 0.1 * rng.standard_normal((1, 16))
    assert most_similar_gap(want * 3, want) == 0
    assert most_similar_gap(want[:1], want[:1]) == 0
    assert most_similar_gap(want, want, [near]) == 0
    # Ours of the first input has become that of the second: its twin is no longer the nearest.
    assert most_similar_gap(want[[1, 1, 2, 3]], want, [near]) > 0.1


def test_vectors_are_compared_by_their_angle(tmp_path):
    want = np.random.default_rng(7).standard_normal((3, 8)).astype(np.float32)
    other = np.where(np.arange(3)[:, None] == 1, -want, want * 2)
    np.savez(tmp_path / "got.npz", e=other)
    np.savez(tmp_path / "want.npz", e=want)
    difference = compare(tmp_path / "got.npz", tmp_path / "want.npz", "e")
    assert difference.turn == pytest.approx(2)
    assert difference.answer_gap > 0


def test_shaking_changes_the_last_bits_of_open_operators_and_of_nothing_else(tmp_path):
    rng = np.random.default_rng(7)
    text = """g (float[n,64] a, float[64,5] b, int64[n] i)
        => (float[n,5] p, float[n,64] d, int64[m] s) {
        p = MatMul(a, b)
        d = Add(a, a)
        s = ReduceSum <keepdims=1> (i)
    }"""
    source = _write(tmp_path / "model.onnx", text)
    assert shake(source, tmp_path / "shaken.onnx") == 1
    feeds = {
        "a": rng.random((7, 64), np.float32),
        "b": rng.random((64, 5), np.float32),
        "i": np.arange(7),
    }
    exact, shaken = (
        onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
        for path in (source, tmp_path / "shaken.onnx")
    )
    product, *rest = exact.run(None, feeds)
    first, *same = shaken.run(None, feeds)
    second = shaken.run(None, feeds)[0]
    for left, right in zip(rest, same, strict=True):
        np.testing.assert_array_equal(left, right)
    assert 0 < np.max(np.abs(first / product - 1)) <= 2**-22
    assert np.any(first != second)


def test_the_gap_of_the_largest_entry_is_what_the_reference_loses_by_it():
    want = np.array([[1.0, 4.0, 3.0], [-2.0, 0.0, -8.0]], np.float32)
    assert top1_gap(want * np.float32(0.5), want) == 0
    assert top1_gap(want[:, [1, 0, 2]], want) == pytest.approx(3 / 8)
    near = want.copy()
    near[0, 2] = 4.5
    assert top1_gap(near, want) == pytest.approx(1 / 8)
    assert top1_gap(want[:1], want) == float("inf")


def test_the_error_of_an_output_is_relative_and_infinite_for_another_shape():
    want = np.array([0.0, -4.0], np.float32)
    assert output_error(want + np.float32(0.004), want) == pytest.approx(1e-3, rel=1e-3)
    assert output_error(want[:1], want) == float("inf")
    assert output_error(want.astype(np.float64), want) == float("inf")


def test_the_error_is_no_number_where_one_is_not_finite_and_the_other_is():
    want = np.array([1.0, np.inf, np.nan], np.float32)
    assert output_error(want.copy(), want) == 0
    assert np.isnan(output_error(np.array([1.0, np.inf, 2.0], np.float32), want))
    assert np.isnan(output_error(np.array([np.nan, 1.0], np.float32), np.ones(2, np.float32)))


def test_outputs_of_other_names_are_refused(tmp_path):
    np.savez(tmp_path / "a.npz", y=np.ones(2))
    np.savez(tmp_path / "b.npz", z=np.ones(2))
    with pytest.raises(BenchmarkError, match="outputs differ"):
        compare(tmp_path / "a.npz", tmp_path / "b.npz")


@pytest.mark.slow
@pytest.mark.parametrize(
    "name", ["magika", "silero-vad-sequence", "gpt2-dynamo", "gru-tagger-script"]
)
def test_a_real_model_matches(name):
    (model,) = (model for model in MODELS if model.name == name)
    try:
        model.path()
    except ModelFileError as err:
        pytest.skip(str(err))
    assert model_check.main([model], seed=0, threads=2, json=None)["matched"] == 1
