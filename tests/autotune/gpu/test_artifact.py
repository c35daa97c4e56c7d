"""The committed records of a GPU make an artifact, without a GPU."""

from __future__ import annotations

import json

import numpy as np
import pytest

from moonpoly.autotune.artifact import read_artifact
from moonpoly.autotune.costs import load_costs, save_costs
from moonpoly.autotune.export import candidates_of, export
from moonpoly.autotune.gpu import export as gpu_export
from moonpoly.autotune.gpu.program import merge_programs
from moonpoly.autotune.records import load_records, save_records
from moonpoly.autotune.sources import Sources, installed_sources
from moonpoly.error import ArtifactError
from moonpoly.target import Target
from moonpoly.workload import Workload

TARGET, WORKLOAD = Target.parse("cuda-sm90a"), Workload("gemm", "float16")
SOURCES = installed_sources(TARGET, WORKLOAD)
# Types with records of their own.
TUNED = ("float16", "tf32", "float8_e4m3fn", "int8")


@pytest.fixture(scope="module")
def few(tmp_path_factory):
    """Return records and costs of three kernels: the cheapest to compile of each way to load."""
    folder = tmp_path_factory.mktemp("few")
    records = load_records(SOURCES.records)
    chosen = [
        min((r for r in records if r.family == family), key=lambda r: r.um * r.un)
        for family in ("whole", "split", "strided")
    ]
    costs = load_costs(SOURCES.costs, SOURCES.records)
    few = Sources(folder / "records.jsonl", folder / "costs.json")
    save_records(few.records, chosen)
    save_costs(
        few.costs,
        {r.kernel: costs["kernels"][r.kernel] for r in chosen},
        grid=costs["grid"],
        machine=costs["machine"],
        environment={},
        records_path=few.records,
    )
    return few


@pytest.fixture(scope="module")
def artifact(few, tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("moonpoly.autotune.export.current_sources", lambda *_: few)
        return export(TARGET, WORKLOAD, tmp_path_factory.mktemp("artifact") / "gemm_float16")


@pytest.mark.parametrize("dtype", TUNED)
def test_every_committed_record_is_a_kernel_that_can_be_built(dtype):
    workload = Workload("gemm", dtype)
    records = load_records(installed_sources(TARGET, workload).records)
    assert len({record.kernel for record in records}) == len(records)
    programs = [
        gpu_export.program_of(TARGET, candidate, record)
        for candidate, record in zip(candidates_of(records, TARGET, workload), records, strict=True)
    ]
    assert [program.name for program in programs] == [record.kernel for record in records]
    assert 30 <= len(merge_programs(programs, "sm90a")) <= 48


@pytest.mark.parametrize("dtype", TUNED)
def test_committed_costs_rise_with_the_work(dtype):
    sources = installed_sources(TARGET, Workload("gemm", dtype))
    costs = load_costs(sources.costs, sources.records)
    shape = len(costs["grid"]["k"]), len(costs["grid"]["load"])
    for name, table in costs["kernels"].items():
        us = np.array(table["us"]).reshape(shape)
        assert (us > 0).all(), name
        # Corrected by single launches, neighbours may be off by what two measurements are.
        assert (us[1:] >= 0.9 * us[:-1]).all(), name
        assert (us[:, 1:] >= 0.9 * us[:, :-1]).all(), name
        assert us[-1, -1] > 5 * us[0, 0], name


def test_a_manifest_says_how_each_kernel_is_launched(artifact):
    assert artifact.manifest["schema"] == 1
    assert artifact.manifest["target"]["name"] == "cuda-sm90a"
    grid = artifact.manifest["grid"]
    for entry in artifact.manifest["kernels"]:
        assert entry["cubin"] in artifact.manifest["images"]
        assert entry["threads"] % 32 == 0
        assert 0 < entry["smem_bytes"] <= 227 * 1024
        assert len(entry["cost"]["us"]) == len(grid["k"]) * len(grid["load"])
        assert ("cluster_us" in entry["cost"]) == entry["split"]
        assert ("box_x" in entry) == (entry["loads"] == "tma")


def test_images_are_machine_code(artifact):
    for image in artifact.images().values():
        assert image[:4] == b"\x7fELF"


def test_a_damaged_image_is_refused_with_the_command_that_mends_it(artifact):
    name = next(iter(artifact.manifest["images"]))
    whole = (artifact.path / name).read_bytes()
    (artifact.path / name).write_bytes(whole[:-1])
    with pytest.raises(ArtifactError, match=r"damaged.*moonpoly export --target cuda-sm90a"):
        read_artifact(artifact.path)
    (artifact.path / name).write_bytes(whole)


def test_a_record_of_another_template_is_refused(few):
    record = load_records(few.records)[0]
    renamed = json.loads(json.dumps(record.__dict__)) | {"kernel": "gemm_f16_sm90a_1x1"}
    (candidate,) = candidates_of((record,), TARGET, WORKLOAD)
    with pytest.raises(ArtifactError, match="another kernel"):
        gpu_export.program_of(TARGET, candidate, type(record)(**renamed))
