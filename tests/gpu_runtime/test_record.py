"""Launches are recorded in a process of its own, on a GPU that the host plays."""

from __future__ import annotations

import json
import os

import pytest
from gpu_runtime import fake_gpu

from moonpoly import _ffi_api
from moonpoly.autotune.artifact import MANIFEST, read_manifest
from moonpoly.autotune.costs import digest_of
from moonpoly.autotune.gpu.record import RecordWorker, calls_of, near_plans, records_of
from moonpoly.autotune.gpu.shapes import access_of, operand_bytes
from moonpoly.autotune.sources import versions
from moonpoly.error import TuneError
from moonpoly.workload import Workload

KERNELS = (
    fake_gpu.kernel(64, 64),
    fake_gpu.kernel(128, 128),
    fake_gpu.kernel(64, 32, split=True),
    fake_gpu.kernel(64, 32, loads="residue", split=True),
    fake_gpu.kernel(64, 32, loads="strided", split=True),
)


@pytest.fixture
def folder(tmp_path):
    """Return the folder of an artifact that the pretended GPU runs."""
    text, images = fake_gpu.artifact(*KERNELS, **versions())
    for name, image in images.items():
        (tmp_path / name).write_bytes(image)
    digests = {name: digest_of(tmp_path / name) for name in images}
    manifest = json.loads(text) | {"digest": "", "images": digests}
    (tmp_path / MANIFEST).write_text(json.dumps(manifest))
    return tmp_path


@pytest.fixture
def on_fake_gpu(fake_driver, monkeypatch, tmp_path_factory):
    """Let processes that start now find the pretended driver wherever they look for one."""
    libraries = tmp_path_factory.mktemp("libraries")
    (libraries / "libcuda.so.1").symlink_to(os.environ["MOONPOLY_CUDA_DRIVER"])
    monkeypatch.setenv("LD_LIBRARY_PATH", str(libraries))


def test_all_plans_of_a_shape_are_launched_overlapping_and_not(folder, on_fake_gpu):
    shapes = [(64, 40, 96), (60, 33, 101), (1, 128, 640)]
    with RecordWorker(folder, operand_bytes(shapes, Workload("gemm", "float16"))) as worker:
        for shape in shapes:
            rows = worker.of_shape(shape, 4.0)
            assert [row["overlap"] for row in rows] in ([False, True], [True, False])
            for row in rows:
                assert (row["m"], row["n"], row["k"]) == shape
                assert row["access"] == access_of(shape, "float16")
                assert len(row["launches"]) >= 2
                assert all(us > 0 for *_, us in row["launches"])


def test_one_kernel_is_launched_alone_over_its_range(folder, on_fake_gpu):
    name = KERNELS[2][0]["name"]
    with RecordWorker(folder, 1 << 20) as worker:
        rows = worker.of_kernel(name, [(64, 32, 64), (64, 32, 512)], 2.0)
    assert [row["k"] for row in rows] == [64, 512]
    assert {kernel for row in rows for kernel, *_ in row["launches"]} == {name}
    assert not any(row["overlap"] for row in rows)
    assert len(rows[1]["launches"]) > 1


def test_what_is_wrong_there_is_an_error_that_names_the_launches(folder, on_fake_gpu):
    (folder / MANIFEST).write_text("{}")
    with (
        RecordWorker(folder, 1 << 20) as worker,
        pytest.raises(TuneError, match=r"launches of \(8, 8, 8\)"),
    ):
        worker.of_shape((8, 8, 8), 4.0)


def test_hopeless_plans_are_left_out(folder):
    kernels = _ffi_api.GpuKernelSet(json.dumps(read_manifest(folder)), {})
    shape = 64, 64, 8192
    plans = {
        ratio: near_plans(kernels, shape, "float16", ratio, overlap=True) for ratio in (1.0, 1.5, 9)
    }
    assert 1 == len(plans[1.0]) < len(plans[1.5]) < len(plans[9])
    least_us = plans[1.0][0]["predicted_us"]
    assert all(plan["predicted_us"] <= 1.5 * least_us for plan in plans[1.5])
    assert all(len(plan["regions"]) == 1 for plan in plans[9])
    rows = records_of(plans[9], range(len(plans[9])))
    assert sum(len(row["launches"]) for row in rows) == len(plans[9])
    assert 2 <= calls_of(plans[9]) <= 20
