"""An artifact is built once, checked each time, and refused by name when it is not whole."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys

import pytest

from moonpoly.autotune import load_artifact, read_artifact
from moonpoly.autotune.artifact import LIBRARY, MANIFEST, OBJECT, artifact_dir
from moonpoly.autotune.cost_model import LAYOUTS
from moonpoly.autotune.costs import load_costs
from moonpoly.autotune.sources import current_sources, installed_sources, own_sources
from moonpoly.error import ArtifactError, StorageError
from moonpoly.target import Target
from moonpoly.workload import Workload

TARGET, WORKLOAD = Target.parse("x86-avx2"), Workload()


@pytest.fixture
def artifact(built, tmp_path):
    """A copy of the artifact that may be damaged."""
    return read_artifact(shutil.copytree(built("x86-avx2").path, tmp_path / "copy"))


def _edit(artifact, **changes):
    manifest = {**artifact.manifest, **changes}
    (artifact.path / MANIFEST).write_text(json.dumps(manifest))


def test_a_manifest_says_what_the_selector_needs(artifact):
    manifest = artifact.manifest
    points = 1
    for axis in ("k", "m_tiles", "n_tiles"):
        assert manifest["grid"][axis] == sorted(set(manifest["grid"][axis]))
        points *= len(manifest["grid"][axis])
    for kernel in manifest["kernels"]:
        assert {"name", "family", "um", "un", "uk", "cost"} <= kernel.keys()
        dot = {"packed", "aliased", "unaligned"}
        assert set(kernel["cost"]) == (set(LAYOUTS) if kernel["family"] == "outer" else dot)
        assert {len(table) for table in kernel["cost"].values()} == {points}
    assert manifest["panel"] == 8
    assert set(manifest["machine"]) == {
        "launch_us",
        "call_us",
        "pack_us_per_kb",
        "copy_us_per_kb",
    }


@pytest.mark.parametrize("name", [LIBRARY, OBJECT])
def test_a_truncated_file_is_refused(artifact, name):
    file = artifact.path / name
    file.write_bytes(file.read_bytes()[:-100])
    with pytest.raises(
        ArtifactError, match=f"{name} has the digest .*moonpoly export --target x86"
    ):
        read_artifact(artifact.path)


@pytest.mark.parametrize("name", [LIBRARY, OBJECT])
def test_a_missing_file_is_refused(artifact, name):
    (artifact.path / name).unlink()
    with pytest.raises(ArtifactError, match=f"{name} has the digest missing"):
        read_artifact(artifact.path)


def test_a_truncated_manifest_is_refused(artifact):
    file = artifact.path / MANIFEST
    file.write_text(file.read_text()[:5000])
    with pytest.raises(ArtifactError, match=r"not whole JSON.*moonpoly export"):
        read_artifact(artifact.path)


@pytest.mark.parametrize("key", ["moonpoly", "tvm", "tvm_ffi"])
def test_another_version_is_named_with_this_one(artifact, key):
    have = artifact.manifest[key]
    _edit(artifact, **{key: "0.0.7"})
    with pytest.raises(ArtifactError, match=rf"0\.0\.7, this is .*{have}.*moonpoly export"):
        read_artifact(artifact.path)


def test_another_schema_is_named(artifact):
    _edit(artifact, schema=99)
    with pytest.raises(ArtifactError, match="schema 99, this moonpoly reads schema 1"):
        read_artifact(artifact.path)


def test_a_manifest_without_kernels_is_refused(artifact):
    _edit(artifact, kernels=None)
    with pytest.raises(ArtifactError, match="lacks 'kernels'"):
        read_artifact(artifact.path)


def test_a_folder_without_a_manifest_is_no_artifact(tmp_path):
    with pytest.raises(ArtifactError, match="is not an artifact"):
        read_artifact(tmp_path)


def test_an_artifact_is_built_on_first_use_and_found_after(empty_cache):
    first = load_artifact(TARGET, WORKLOAD)
    assert first.path == artifact_dir(TARGET, WORKLOAD)
    assert empty_cache in first.path.parents
    stamp = first.lib_path.stat().st_mtime_ns
    assert load_artifact(TARGET, WORKLOAD).lib_path.stat().st_mtime_ns == stamp
    assert first.object_path.exists()


def test_a_loaded_artifact_plans_for_the_targets_units(empty_cache, built):
    shutil.copytree(built("x86-avx2").path, artifact_dir(TARGET, WORKLOAD))
    artifact = load_artifact(TARGET.with_num_pes(7), WORKLOAD)
    assert artifact.manifest["target"]["num_pes"] == 7


def test_an_artifact_of_other_inputs_is_built_again(empty_cache, built):
    path = artifact_dir(TARGET, WORKLOAD)
    shutil.copytree(built("x86-avx2").path, path)
    manifest = json.loads((path / MANIFEST).read_text())
    (path / MANIFEST).write_text(json.dumps({**manifest, "digest": "of something else"}))
    digest = load_artifact(TARGET, WORKLOAD).manifest["digest"]
    assert digest == current_sources(TARGET, WORKLOAD).digest()


def test_a_damaged_artifact_in_the_cache_is_refused_not_used(empty_cache, built):
    path = artifact_dir(TARGET, WORKLOAD)
    shutil.copytree(built("x86-avx2").path, path)
    (path / LIBRARY).write_bytes(b"")
    with pytest.raises(ArtifactError, match="damaged"):
        load_artifact(TARGET, WORKLOAD)


def test_two_processes_that_need_it_at_once_both_get_it(empty_cache):
    script = (
        "from moonpoly.autotune import load_artifact, read_artifact\n"
        "from moonpoly.target import Target\nfrom moonpoly.workload import Workload\n"
        "a = load_artifact(Target.parse('x86-avx2'), Workload())\n"
        "print(a.lib_path.stat().st_mtime_ns, len(read_artifact(a.path).manifest['kernels']))"
    )
    processes = [
        subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True)
        for _ in range(2)
    ]
    outputs = [process.communicate(timeout=300)[0] for process in processes]
    assert [process.returncode for process in processes] == [0, 0]
    assert outputs[0] == outputs[1] != ""


def test_own_cost_tables_are_used_and_must_fit_the_records(empty_cache):
    own, installed = own_sources(TARGET, WORKLOAD), installed_sources(TARGET, WORKLOAD)
    before = current_sources(TARGET, WORKLOAD).digest()
    own.costs.parent.mkdir(parents=True)
    text = installed.costs.read_text()
    own.costs.write_text(text.replace('"launch_us":', '"launch_us":1'))
    sources = current_sources(TARGET, WORKLOAD)
    assert sources.costs == own.costs
    assert sources.digest() != before
    machine = load_costs(sources.costs, sources.records)["machine"]
    assert machine != load_costs(installed.costs, installed.records)["machine"]
    other = installed_sources(Target.parse("x86-avx512"), WORKLOAD).records
    with pytest.raises(ArtifactError, match="fitted for other kernels"):
        load_costs(own.costs, other)


def test_damaged_cost_tables_are_named(tmp_path):
    installed = installed_sources(TARGET, WORKLOAD)
    path = tmp_path / "costs.json"
    path.write_text(installed.costs.read_text()[:1000])
    with pytest.raises(ArtifactError, match=r"costs\.json are damaged"):
        load_costs(path, installed.records)


def test_a_cache_that_cannot_be_made_is_one_clear_error(tmp_path, monkeypatch):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("MOONPOLY_CACHE_DIR", str(tmp_path / "file"))
    with pytest.raises(StorageError, match="MOONPOLY_CACHE_DIR"):
        load_artifact(TARGET, WORKLOAD)
