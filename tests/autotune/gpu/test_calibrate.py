"""Costs are refitted on a GPU whose times are computed, without a search."""

from __future__ import annotations

import pytest

from moonpoly.autotune.costs import load_costs
from moonpoly.autotune.export import candidates_of
from moonpoly.autotune.gpu.calibrate import calibrate_gpu
from moonpoly.autotune.gpu.shapes import drawn_shapes
from moonpoly.autotune.records import load_records, save_records
from moonpoly.autotune.sources import Sources, installed_sources
from moonpoly.target import Target
from moonpoly.workload import Workload

from . import computed_gpu
from .computed_gpu import Recorder

TARGET, WORKLOAD = Target.parse("cuda-sm90a"), Workload("gemm", "float16")


@pytest.fixture
def few(tmp_path):
    """Return the files of a few kernels, costs of which there are none yet."""
    every = load_records(installed_sources(TARGET, WORKLOAD).records)
    families = ("whole", "split", "direct", "gemv", "strided")
    chosen = [next(r for r in every if r.family == family) for family in families]
    sources = Sources(tmp_path / "records.jsonl", tmp_path / "costs.json")
    save_records(sources.records, chosen)
    return sources


def test_tables_are_fitted_to_launches_of_all_kernels_and_of_each(few, monkeypatch):
    computed_gpu.install(monkeypatch)
    monkeypatch.setattr(Recorder, "steps", 0)
    records = load_records(few.records)
    chosen = candidates_of(records, TARGET, WORKLOAD)
    calibrate_gpu(TARGET, WORKLOAD, chosen, records, 20, few)
    assert Recorder.steps == 20 + len(records)
    costs = load_costs(few.costs, few.records)
    assert set(costs["kernels"]) == {record.kernel for record in records}
    committed = installed_sources(TARGET, WORKLOAD)
    known = load_costs(committed.costs, committed.records)
    for name, table in costs["kernels"].items():
        # In the form of what is committed.
        like = {key: value for key, value in known["kernels"][name].items()}
        assert list(table) == list(like)
        assert [len(table[key]) for key in ("us", "correction")] == [110, 269]
    measured = {"fetch_gbs", "direct_gbs"}
    assert set(costs["machine"]) | measured == set(known["machine"]) | measured
    assert costs["grid"] == known["grid"]


def test_costs_that_are_known_are_moved_and_nothing_is_sampled(few, monkeypatch):
    computed_gpu.install(monkeypatch)
    records = load_records(few.records)
    chosen = candidates_of(records, TARGET, WORKLOAD)
    committed = installed_sources(TARGET, WORKLOAD)
    known = load_costs(committed.costs, committed.records)
    known["kernels"] = {r.kernel: known["kernels"][r.kernel] for r in records}
    monkeypatch.setattr("moonpoly.autotune.gpu.calibrate._sampled", None)
    asked = []
    of_shape = Recorder.of_shape
    monkeypatch.setattr(Recorder, "of_shape", lambda *a: asked.append(a[1:]) or of_shape(*a))
    monkeypatch.setattr(Recorder, "of_kernel", None)
    calibrate_gpu(TARGET, WORKLOAD, chosen, records, 20, few, known)
    # Shapes that neither tune nor calibrate draws.
    fitted_to = {shape for seed in (0, 1) for shape in drawn_shapes(6000, seed)}
    assert len(asked) == 20
    assert {ratio for _, ratio in asked} == {1.5}
    assert fitted_to.isdisjoint(shape for shape, _ in asked)
    costs = load_costs(few.costs, few.records)
    assert costs["machine"] == known["machine"]
    assert {name: list(each) for name, each in costs["kernels"].items()} == {
        name: list(each) for name, each in known["kernels"].items()
    }
    assert costs["kernels"] != known["kernels"]
