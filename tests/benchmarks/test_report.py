from __future__ import annotations

import json

import pytest
import tolerances

from moonpoly.benchmarks import machine, report
from moonpoly.benchmarks import tolerances as bounds
from moonpoly.error import StorageError


def test_json_has_summary_samples_and_what_else_is_given(tmp_path):
    path = tmp_path / "out.json"
    report.write_json(path, {"valid": 2}, [{"m": 1}], machine={"cpu": "x"})
    document = json.loads(path.read_text())
    assert document == {"summary": {"valid": 2}, "machine": {"cpu": "x"}, "samples": [{"m": 1}]}
    assert [file.name for file in tmp_path.iterdir()] == ["out.json"]


def test_no_file_is_written_where_none_is_asked_for(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    report.write_json(None, {}, [])
    assert not list(tmp_path.iterdir())


def test_an_unwritable_file_is_refused_before_the_measurement(tmp_path):
    report.check_writable(None)
    report.check_writable(tmp_path / "out.json")
    with pytest.raises(StorageError, match="does not exist"):
        report.check_writable(tmp_path / "none" / "out.json")


def test_progress_yields_every_item_in_order():
    assert list(report.track([3, 1, 2], "test", report.console())) == [3, 1, 2]


def test_machine_facts_name_cpu_threads_and_versions():
    facts = machine.facts(2)
    assert "2 threads" in facts["cores"]
    assert "moonpoly" in facts["versions"] and "apache-tvm-ffi" in facts["versions"]
    assert facts["cpu"]


def test_the_bounds_are_those_of_the_one_table():
    assert tolerances.OPERATOR_REL["float32"] == bounds.OPERATOR_REL
    for dtype in ("float16", "bfloat16", "tf32"):
        assert tolerances.OPERATOR_REL[dtype] == bounds.OPERATOR_REL_16BIT
    assert tolerances.OPERATOR_REL["float8_e4m3fn"] == bounds.OPERATOR_REL_8BIT_FLOAT
    assert tolerances.MODEL_REL["float32"] == bounds.MODEL_REL
