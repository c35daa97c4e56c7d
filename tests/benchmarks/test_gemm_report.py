from __future__ import annotations

import io

import pytest
from rich.console import Console

from moonpoly.benchmarks import gemm_report
from moonpoly.benchmarks.contenders import MODES
from moonpoly.benchmarks.contest import Protocol, Result, Timing
from moonpoly.benchmarks.report import geomean, number, quantile
from moonpoly.benchmarks.roofline import Roofline
from moonpoly.benchmarks.shape_lists import Problem

LIMITS = Roofline(2, 500.0, 250.0, ((1 << 14, 400.0), (1 << 20, 200.0), (1 << 28, 50.0)))


def result(ours, first, second, *, m=64, n=64, k=64):
    def ways(us):
        return {"run": Timing(MODES, 0.0, [us, us, us])}

    timings = {"moonpoly": ways(ours), "onnxruntime": ways(first), "openblas": ways(second)}
    return Result(Problem("test", m, n, k), timings, 0)


def test_the_ratio_is_to_the_fastest_peer():
    (ratio,) = gemm_report.ratios([result(2.0, 3.0, 5.0)], ("constant",))
    assert (ratio.peer, ratio.value) == ("onnxruntime", 1.5)


def test_summary_has_the_named_keys_over_both_modes_and_of_each():
    results = [result(1.0, 2.0, 9.0), result(2.0, 9.0, 1.0)]
    summary = gemm_report.summarise(results)
    for suffix in ("", "_constant", "_dynamic"):
        assert summary["geomean" + suffix] == pytest.approx(1.0)
        assert summary["win_rate" + suffix] == 0.5
        assert summary["worst_1pct" + suffix] == pytest.approx(0.515, abs=0.02)
    assert summary["shapes"] == 2


def test_a_way_counts_only_in_the_modes_it_serves():
    timings = {
        "packed": Timing(("constant",), 0.0, [1.0]),
        "plain": Timing(("constant", "dynamic"), 0.0, [2.0]),
    }
    found = Result(Problem("test", 1, 1, 1), {"peer": timings}, 0)
    assert found.best_way("peer", "constant") == ("packed", 1.0)
    assert found.best_way("peer", "dynamic") == ("plain", 2.0)


def test_a_timing_is_the_median_of_its_rounds():
    assert Timing(MODES, 0.0, [9.0, 1.0, 2.0]).us == 2.0


def test_long_calls_get_fewer_rounds_but_at_least_one():
    protocol = Protocol(sample_us=1_000.0, rounds=5, budget_us=10_000.0)
    assert [protocol.rounds_for(us) for us in (1.0, 2_500.0, 1e6)] == [5, 4, 1]


def test_the_limit_is_the_larger_of_operations_and_bytes():
    square, vector = Problem("test", 1024, 1024, 1024), Problem("test", 1, 4096, 4096)
    assert LIMITS.limit_us(square) == pytest.approx(2 * 1024**3 / 500e9 * 1e6)
    assert LIMITS.limit_us(vector) > vector.operations / 500e9 * 1e6
    assert LIMITS.bandwidth_gbs(1) == 400.0
    assert LIMITS.bandwidth_gbs(1 << 17) == pytest.approx(300.0)
    assert LIMITS.bandwidth_gbs(1 << 40) == 50.0


def test_the_report_names_classes_peers_and_the_worst():
    results = [result(1.0, 2.0, 9.0), result(2.0, 9.0, 1.0, m=1, n=4096, k=4096)]
    text = io.StringIO()
    out = Console(file=text, width=120)
    summary = gemm_report.summarise(results)
    gemm_report.show(results, results[0], LIMITS, summary, out)
    for part in ("FMA peak 500", "vector", "small", "openblas", "1 x 4096 x 4096", "win rate"):
        assert part in text.getvalue()


def test_statistics():
    assert geomean([1.0, 4.0]) == pytest.approx(2.0)
    assert quantile([3.0, 1.0, 2.0], 0.5) == 2.0
    assert quantile([0.0, 1.0], 0.25) == 0.25
    assert [number(x) for x in (0.5, 12.345, 12345.6, 2e-5, float("nan"), "x")] == [
        "0.500",
        "12.35" if number(12.345) == "12.35" else "12.34",
        "12,346",
        "2.0e-05",
        "-",
        "x",
    ]
