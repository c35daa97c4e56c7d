"""A run that is taken up again knows what it had, and takes nothing of another compiler's."""

from __future__ import annotations

import json

import pytest
from onnx_standard.kept import ForeignOutcomesError, KeptOutcomes, compiler_state
from onnx_standard.outcome import Outcome, Status


def test_outcomes_come_back_at_the_same_state_and_at_no_other(tmp_path):
    path = tmp_path / "kept.jsonl"
    outcomes = [Outcome("a", Status.PASSED), Outcome("b", Status.REFUSED, "Relu (node 'y')")]
    kept = KeptOutcomes(path, "here")
    assert kept.outcomes == []
    kept.add(outcomes[0])
    with path.open("a") as stream:
        stream.write('["c", "pas')
    KeptOutcomes(path, "here").add(outcomes[1])
    assert KeptOutcomes(path, "here").outcomes == outcomes
    with pytest.raises(ForeignOutcomesError, match="of state here, this compiler is at there"):
        KeptOutcomes(path, "there")


def test_a_file_that_names_no_state_is_not_taken(tmp_path):
    path = tmp_path / "kept.jsonl"
    path.write_text(json.dumps(["a", "passed", ""]) + "\n")
    with pytest.raises(ForeignOutcomesError, match="of state unknown"):
        KeptOutcomes(path, "here")


def test_the_state_follows_the_sources(tmp_path, monkeypatch):
    before = compiler_state()
    assert compiler_state() == before
    (tmp_path / "__init__.py").write_text("")
    monkeypatch.setattr("moonpoly.__file__", str(tmp_path / "__init__.py"))
    assert compiler_state() != before
