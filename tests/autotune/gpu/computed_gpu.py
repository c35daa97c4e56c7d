"""A GPU whose times are computed by a rule: in place of compilers and of processes with a GPU."""

from __future__ import annotations

import json
from concurrent.futures import Future

import numpy as np

from moonpoly import _ffi_api
from moonpoly.autotune.artifact import read_manifest
from moonpoly.autotune.gpu import calibrate, merged, recording, search, tune
from moonpoly.autotune.gpu.compile import Kernel
from moonpoly.autotune.gpu.launch import tiles_of
from moonpoly.autotune.gpu.machine import GpuConstants
from moonpoly.autotune.gpu.measure import CONTEXTS
from moonpoly.autotune.gpu.record import near_plans, records_of
from moonpoly.autotune.gpu.sample import plan_samples, sample_of, shaped
from moonpoly.error import TuneError

NUM_SMS = 132
# What launches take more than where they were sampled.
DRAWN_MORE = 1.3


class Pool:
    def submit(self, call, *arguments):
        future = Future()
        future.set_result(call(*arguments))
        return future


def compiled(program, _target):
    params = ("m", "n", "k", "grid", *["slices"] * program.config.slices)
    return Kernel(program, f"{program.name}_kernel", params, 100, 0), program.name.encode()


class Worker:
    """Times launches by a rule: a wave costs a step's work; ping-pong is a tenth faster."""

    timed = sampled = 0

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
        Worker.sampled += 1
        config = kernel.program.config
        return [
            sample_of(config, launch, _slots(config), self._us(config, launch))
            for launch in plan_samples(kernel, _slots(config), count, cuts)
        ]

    def constants(self, _kernel, _image):
        slots = tuple(NUM_SMS // cluster for cluster in (1, 2, 4, 8))
        return GpuConstants(NUM_SMS, 2.1, 0.6, 40.0, 6e7, 5000.0, 4000.0, 116736, slots)


def _slots(config):
    return NUM_SMS * config.blocks


class Recorder:
    """Launches by the rule of a manifest's first tables: some more of each, by how it is used.

    ``fails`` is called with each step's name.
    """

    steps = 0
    fails = staticmethod(lambda _step: None)

    def __init__(self, folder, num_bytes):
        assert num_bytes > 0
        self._manifest = read_manifest(folder)

    def __enter__(self):
        return self

    def __exit__(self, *_exception):
        pass

    def _records(self, shape, ratio, kernel=""):
        entries = [e for e in self._manifest["kernels"] if kernel in ("", e["name"])]
        kernels = _ffi_api.GpuKernelSet(json.dumps(self._manifest | {"kernels": entries}), {})
        plans = near_plans(kernels, shape, self._manifest["dtype"], ratio, overlap=not kernel)
        return records_of(plans, [recorded_us(plan) for plan in plans])

    def of_shape(self, shape, ratio):
        Recorder.fails(str(shape))
        Recorder.steps += 1
        return self._records(shape, ratio)

    def of_kernel(self, kernel, shapes, ratio):
        Recorder.fails(kernel)
        Recorder.steps += 1
        return [row for shape in shapes for row in self._records(shape, ratio, kernel)]


def recorded_us(plan):
    """What the plan of one region takes there: more than sampled, and less of long reductions."""
    [region] = plan["regions"]
    return DRAWN_MORE * (plan["k"] / 1024) ** -0.05 * region["us"] - 0.5 * plan["overlap"]


def install(monkeypatch):
    """Put it in the place of the real one."""
    monkeypatch.setattr(Recorder, "fails", staticmethod(lambda _step: None))
    for module in (search, merged, calibrate):
        monkeypatch.setattr(module, "compile_pool", Pool)
        monkeypatch.setattr(module, "compiled", compiled)
    for module in (search, tune, calibrate):
        monkeypatch.setattr(module, "LaunchWorker", Worker)
    monkeypatch.setattr(recording, "RecordWorker", Recorder)
