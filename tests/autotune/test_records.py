"""Tuning records survive the way to disk, and a damaged file is named with its line."""

from __future__ import annotations

from dataclasses import replace

import pytest
import tvm

from moonpoly.autotune.candidates import candidates
from moonpoly.autotune.export import candidates_of, rebuild
from moonpoly.autotune.prefetch import insert_prefetch
from moonpoly.autotune.records import load_records, save_records
from moonpoly.autotune.sources import installed_sources
from moonpoly.error import ArtifactError, StorageError
from moonpoly.target import Target, target_names
from moonpoly.workload import Workload


def _records(name):
    return load_records(installed_sources(Target.parse(name), Workload()).records)


@pytest.mark.parametrize("name", target_names("llvm"))
def test_records_round_trip(tmp_path, name):
    records = _records(name)
    save_records(tmp_path / "records.jsonl", records)
    assert load_records(tmp_path / "records.jsonl") == records


@pytest.mark.parametrize("name", target_names("llvm"))
def test_a_record_rebuilds_the_schedule_it_describes(name):
    target = Target.parse(name)
    records = _records(name)
    for candidate, record in zip(candidates_of(records, target, Workload()), records, strict=True):
        script = insert_prefetch(rebuild(candidate, record)).script()
        assert ("prefetch" in script) == (record.decisions["prefetch_distance"] > 0)
        again = rebuild(candidate, record)
        tvm.ir.assert_structural_equal(rebuild(candidate, record), again)


def test_a_damaged_line_is_named(tmp_path):
    path = tmp_path / "records.jsonl"
    save_records(path, _records("x86-avx512")[:3])
    path.write_text(path.read_text()[:-40])
    with pytest.raises(ArtifactError, match=r"line 3 of .*records.jsonl is damaged"):
        load_records(path)


def test_a_line_with_another_field_is_named(tmp_path):
    path = tmp_path / "records.jsonl"
    path.write_text('{"kernel": "x", "speed": 3}\n')
    with pytest.raises(ArtifactError, match="line 1"):
        load_records(path)


def test_a_missing_file_says_what_to_do(tmp_path):
    with pytest.raises(StorageError, match="moonpoly tune"):
        load_records(tmp_path / "none.jsonl")


def test_records_of_another_target_are_refused():
    target = Target.parse("x86-avx2")
    with pytest.raises(ArtifactError, match="which x86-avx2 does not have"):
        candidates_of(_records("x86-avx512"), target, Workload())


def test_a_trace_that_does_not_fit_is_refused():
    target = Target.parse("x86-avx512")
    record = _records("x86-avx512")[0]
    other = "dot" if record.family == "outer" else "outer"
    candidate = next(c for c in candidates(target, Workload()) if c.tile.family == other)
    with pytest.raises(ArtifactError, match="does not fit its template"):
        rebuild(candidate, replace(record, trace=[[["NoSuch", [], [], []]], []]))
