"""A tuning run from search to cost tables, on a GPU whose times are computed."""

from __future__ import annotations

from concurrent.futures import Future

import numpy as np
import pytest

from moonpoly.autotune.candidates import candidates
from moonpoly.autotune.costs import load_costs
from moonpoly.autotune.gpu import search, tune
from moonpoly.autotune.gpu.compile import Kernel
from moonpoly.autotune.gpu.launch import tiles_of
from moonpoly.autotune.gpu.machine import GpuConstants
from moonpoly.autotune.gpu.measure import CONTEXTS
from moonpoly.autotune.gpu.sample import plan_samples, sample_of, shaped
from moonpoly.autotune.records import load_records
from moonpoly.autotune.sources import Sources
from moonpoly.error import TuneError
from moonpoly.schedules.cuda import configs
from moonpoly.target import Target
from moonpoly.workload import Workload

TARGET = Target.parse("cuda-sm90a")
TILES = {("whole", 128, 128), ("split", 16, 64), ("strided", 64, 64)}


class Pool:
    def submit(self, call, *arguments):
        future = Future()
        future.set_result(call(*arguments))
        return future


class Worker:
    """Times launches by a rule: a wave costs a step's work; ping-pong is a tenth faster."""

    timed = 0

    def __init__(self, _dtype):
        pass

    def __enter__(self):
        return self

    def __exit__(self, *_exception):
        pass

    @staticmethod
    def _us(config, launch):
        waves = np.ceil(tiles_of(config, launch) * launch.cluster * launch.slices / _slots(config))
        k = launch.k / launch.cluster / launch.slices
        work = 2 * config.um * config.un * config.blocks * k / 6e6
        return 2.0 + waves * (0.5 + work) * (0.9 if config.pingpong else 1.0)

    def context_us(self, kernel, _image):
        Worker.timed += 1
        config = kernel.program.config
        if config.cluster > 1:
            raise TuneError("this GPU refuses clusters")
        return [
            self._us(config, shaped(config, _slots(config), k, load, 1.0))
            for k, load in CONTEXTS.values()
        ]

    def samples(self, kernel, _image, count, cuts):
        config = kernel.program.config
        return [
            sample_of(config, launch, _slots(config), self._us(config, launch))
            for launch in plan_samples(kernel, _slots(config), count, cuts)
        ]

    def constants(self, _kernel, _image):
        return GpuConstants(132, 2.1, 0.6, 40.0, 6e7, 5000.0, 4000.0)


def _slots(config):
    return 132 * config.blocks


def _compiled(program, _target):
    return Kernel(program, f"{program.name}_kernel", ("m", "n", "k"), 100, 0), b"image"


@pytest.fixture
def run(monkeypatch, tmp_path):
    """Return a function that tunes three tiles, again and again in the same folder."""
    monkeypatch.setattr(search, "compile_pool", Pool)
    monkeypatch.setattr(search, "compiled", _compiled)
    for module in (search, tune):
        monkeypatch.setattr(module, "LaunchWorker", Worker)
    chosen = [
        c
        for c in candidates(TARGET, Workload("gemm", "float16"))
        if (c.tile.family, c.tile.um, c.tile.un) in TILES
    ]
    output = Sources(tmp_path / "records.jsonl", tmp_path / "costs.json")

    def once():
        Worker.timed = 0
        tune.tune_gpu(TARGET, chosen, 40, tmp_path / "work", output)
        return chosen, output, Worker.timed

    return once


def test_every_program_is_timed_once_and_the_best_are_kept(run):
    chosen, output, timed = run()
    programs = sum(len(configs(candidate.tile)) for candidate in chosen)
    assert programs * 0.8 <= timed <= programs
    records = load_records(output.records)
    costs = load_costs(output.costs, output.records)
    assert {record.kernel for record in records} == set(costs["kernels"])
    # What fails is never kept, and what is slower in every situation neither.
    assert all(r.decisions["cluster_p"] == r.decisions["cluster_q"] == 1 for r in records)
    assert all(r.decisions["pingpong"] for r in records if r.family == "whole")
    assert "strided" in {record.family for record in records}


def test_a_second_run_goes_on_where_the_first_stopped(run):
    _, output, timed = run()
    before = output.records.read_bytes()
    _, output, again = run()
    assert again < timed * 0.2
    assert output.records.read_bytes() == before
