"""Each benchmark run through once, small: what it returns, prints and writes."""

from __future__ import annotations

import json
import sys

import pytest

from moonpoly.benchmarks import contest, gemm, models, oracle, plot, select, validity
from moonpoly.benchmarks.contenders import MODES
from moonpoly.benchmarks.contest import Result, Timing
from moonpoly.benchmarks.peer import BenchmarkError
from moonpoly.benchmarks.shape_lists import Problem
from moonpoly.model_registry import TIMED

QUICK = contest.Protocol(sample_us=200.0, rounds=1)


def test_validity_finds_every_drawn_shape_valid(tmp_path):
    path = tmp_path / "out.json"
    summary = validity.main(sample=5, seed=1, threads=2, json=path)
    assert summary == {"valid": 5, "total": 5}
    assert json.loads(path.read_text())["summary"] == summary


def test_select_times_every_shape_in_every_mode(tmp_path):
    path = tmp_path / "out.json"
    summary = select.main(sample=20, threads=2, json=path)
    assert {"median_us", "p99_us", "cached_us", "site_ns"} <= set(summary)
    assert len(json.loads(path.read_text())["samples"]) == summary["selections"] == 60


@pytest.mark.slow
def test_oracle_gives_three_shares_of_the_best_plan(tmp_path):
    path = tmp_path / "out.json"
    summary = oracle.main(sample=2, threads=2, json=path)
    for key in ("of_oracle", "waves_only", "task_cost_only"):
        assert summary[key] > 0
    assert len(json.loads(path.read_text())["samples"]) == 2


def test_a_share_of_the_best_plan_is_the_median_over_rounds():
    best = [2.0, 3.0, 1.0]
    assert oracle.share_of(best, best) == 1
    # A slower plan has less, whatever one disturbed round says.
    assert oracle.share_of(best, [4.0, 6.0, 0.5]) == 0.5


@pytest.mark.slow
def test_gemm_compares_with_the_peers_and_writes_the_named_keys(tmp_path, monkeypatch):
    # torch is not a test dependency; the other peers are.
    monkeypatch.setattr(gemm, "PEERS", ("onnxruntime", "openblas"))
    shapes, path = tmp_path / "own.csv", tmp_path / "out.json"
    shapes.write_text("m,n,k\n5,7,11\n129,65,257\n")
    summary = gemm.main(shapes=shapes, threads=1, json=path, protocol=QUICK)
    assert {"geomean", "win_rate", "worst_1pct"} <= set(summary)
    document = json.loads(path.read_text())
    assert [sample["m"] for sample in document["samples"]] == [5, 129]
    assert set(document["contenders"]) == {"moonpoly", "onnxruntime", "openblas"}
    assert document["roofline"]["peak_gflops"] > 1


def test_a_contender_that_computes_something_else_is_refused():
    timings = {"peer": {"way": Timing(MODES, 1e-3, [1.0])}}
    with pytest.raises(BenchmarkError, match="peer/way is wrong at 2x3x4"):
        gemm._check(Result(Problem("test", 2, 3, 4), timings, 0))


def test_the_plot_needs_matplotlib_and_says_so(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    with pytest.raises(BenchmarkError, match=r"needs matplotlib.*\[bench\]"):
        plot.plot_ratios([], tmp_path / "out.svg")


def test_an_unknown_model_is_named_with_those_known():
    with pytest.raises(BenchmarkError, match=r"unknown model 'nothing'.*minilm-l3"):
        models._choose(["nothing"], ())


def test_every_timed_model_is_measured_at_eight_shapes_or_more():
    for model in TIMED:
        assert len(set(model.shapes)) >= 8
