"""The pool names the case at which a process dies or hangs, and goes on with the others."""

from __future__ import annotations

from onnx_standard.outcome import Status
from onnx_standard.pool import run_cases
from onnx_standard.unruly import run_unruly


def test_a_dead_and_a_hung_process_are_named_and_replaced():
    names = ["first", "dies", "second", "hangs", "third"]
    outcomes = {o.name: o for o in run_cases(names, run=run_unruly, workers=1, case_seconds=5)}
    assert list(outcomes) == names
    assert outcomes["dies"].status is Status.CRASHED
    assert outcomes["dies"].reason == "SIGABRT"
    assert outcomes["hangs"].status is Status.HUNG
    passed = [name for name, outcome in outcomes.items() if outcome.status is Status.PASSED]
    assert passed == ["first", "second", "third"]
