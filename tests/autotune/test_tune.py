"""A small search, for real: found, interrupted, resumed, chosen, fitted, exported."""

from __future__ import annotations

import numpy as np
import pytest

from moonpoly.autotune import load_artifact
from moonpoly.autotune.calibrate import calibrate
from moonpoly.autotune.candidates import candidates
from moonpoly.autotune.export import candidates_of
from moonpoly.autotune.measure import TrialWorker
from moonpoly.autotune.records import load_records
from moonpoly.autotune.search import open_database, sampled_values, search_candidate, trace_json
from moonpoly.autotune.sources import own_sources
from moonpoly.autotune.tune import tune
from moonpoly.target import host_target
from moonpoly.workload import Workload

WORKLOAD = Workload()


def _tiles(*suffixes):
    return [c for c in candidates(host_target(), WORKLOAD) if c.name.endswith(suffixes)]


@pytest.mark.slow
def test_an_interrupted_search_goes_on_where_it_stopped(tmp_path):
    target = host_target()
    (candidate,) = [c for c in _tiles("_2x16") if c.tile.family == "outer"]
    measured = []

    def interrupt():
        measured.append(1)
        if len(measured) == 2:
            raise KeyboardInterrupt

    with TrialWorker() as worker, pytest.raises(KeyboardInterrupt):
        database = open_database(tmp_path, candidate)
        search_candidate(candidate, target, database, 4, worker, interrupt)
    # An interruption may cut the last line short.
    trials = tmp_path / candidate.name / "trials.json"
    trials.write_text(trials.read_text() + '[0, [[["Sample')
    database = open_database(tmp_path, candidate)
    assert len(database) == 2
    with TrialWorker() as worker:
        search_candidate(candidate, target, database, 4, worker, lambda: measured.append(1))
    assert len(measured) == len(database) == 4
    decisions = [sampled_values(trace_json(r.trace)) for r in database.get_all_tuning_records()]
    assert len(set(decisions)) == 4


@pytest.mark.slow
def test_a_tuned_set_is_what_the_artifact_is_made_of(tmp_path, empty_cache):
    target = host_target()
    outer = [c for c in _tiles("_4x16", "_1x16") if c.tile.family == "outer"]
    result = tune(target, WORKLOAD, trials=4, tiles=outer, work_dir=tmp_path)
    assert result.records == load_records(own_sources(target, WORKLOAD).records)
    assert set(candidates_of(result.records, target, WORKLOAD)) <= set(outer)
    assert all(record.trials == 4 for record in result.records)
    artifact = load_artifact(target, WORKLOAD)
    assert [k["name"] for k in artifact.manifest["kernels"]] == [r.kernel for r in result.records]
    # Everything is on disk: a second run measures no schedule again.
    again = tune(target, WORKLOAD, trials=4, tiles=outer, work_dir=tmp_path)
    assert again.records == result.records
    before = artifact.manifest
    calibrate(target, WORKLOAD)
    after = load_artifact(target, WORKLOAD).manifest
    assert after["digest"] != before["digest"]
    old = np.array([kernel["cost"]["packed"] for kernel in before["kernels"]])
    new = np.array([kernel["cost"]["packed"] for kernel in after["kernels"]])
    assert old.shape == new.shape
