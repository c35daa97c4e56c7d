"""The ONNX standard's node tests: each passes, or is refused by name at compile time."""

from __future__ import annotations

from onnx_standard.cases import load_cases
from onnx_standard.outcome import Outcome, Status
from onnx_standard.pool import run_cases

# Of all cases, one in so many is run here; scripts/onnx_coverage.py runs them all.
SAMPLE = 18
# The share of the counted cases that must pass.
PASSING = 0.9


def _run(names) -> list[Outcome]:
    """Run cases, check that each passes or is refused, and return the outcomes."""
    outcomes = list(run_cases(names))
    assert sorted(outcome.name for outcome in outcomes) == sorted(names)
    failures = {
        outcome.name: f"{outcome.status.value}: {outcome.reason}"
        for outcome in outcomes
        if outcome.status not in (Status.PASSED, Status.REFUSED)
    }
    assert not failures, f"{len(failures)} cases fail: {failures}"
    return outcomes


def _assert_share_passes(outcomes) -> None:
    cases = load_cases()
    counted = [outcome for outcome in outcomes if cases[outcome.name].counted]
    passed = sum(outcome.status is Status.PASSED for outcome in counted)
    assert passed >= PASSING * len(counted), f"{passed} of {len(counted)} counted cases pass"


def test_a_sample_passes_or_is_refused():
    _assert_share_passes(_run(list(load_cases())[::SAMPLE]))
