"""Kernels are right on a GPU: ragged shapes, cut reductions, the same bits twice.

Run on a machine with a Hopper GPU: ``pytest -m gpu tests/autotune/gpu``.
"""

from __future__ import annotations

import math
import time
from dataclasses import asdict

import numpy as np
import pytest

from moonpoly.autotune.candidates import candidates
from moonpoly.autotune.costs import load_costs
from moonpoly.autotune.gpu.cost_model import GRID, LaunchSample, fit
from moonpoly.autotune.gpu.export import write_artifact
from moonpoly.autotune.gpu.launch import Launch, bench
from moonpoly.autotune.gpu.machine import measure_gpu
from moonpoly.autotune.gpu.measure import checks
from moonpoly.autotune.gpu.recording import record
from moonpoly.autotune.gpu.refit import refit
from moonpoly.autotune.gpu.shapes import drawn_shapes, range_shapes
from moonpoly.autotune.sources import Sources
from moonpoly.autotune.tune import tune
from moonpoly.target import gpu_features
from moonpoly.workload import Workload

from .conftest import KINDS, PAIRS, TARGET, types_of
from .float8_sums import float8_sums

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif("sm_90" not in gpu_features(), reason="needs a Hopper GPU"),
]


@pytest.mark.parametrize("kind", KINDS)
def test_a_kernel_computes_what_numpy_does(compiled, kind):
    kernels, image = compiled
    on = bench("float16")
    function, slots = on.load(kernels[kind], image)
    config = kernels[kind].program.config
    ragged = [Launch(1, 1, 8)]
    if config.loads != "gemv":
        ragged.append(Launch(config.um + 1, config.un - 1, 1000))
    for launch in (*checks(kernels[kind]), *ragged):
        on.check(kernels[kind], function, slots, launch)


@pytest.mark.parametrize("kind", ["split", "split-swapped", "strided"])
def test_a_cut_reduction_gives_the_same_bits_twice(compiled, kind):
    kernels, image = compiled
    on = bench("float16")
    function, slots = on.load(kernels[kind], image)
    config = kernels[kind].program.config
    launch = Launch(100, 72, 5000, 8, 3)
    results = []
    for _ in range(5):
        on.launcher(kernels[kind], function, slots, launch)()
        results.append(on.result(launch, config.out_dtype).tobytes())
    assert len(set(results)) == 1


def test_launches_are_recorded_as_they_are_exported(compiled, tmp_path):
    """Of an artifact with every kind of kernel, on shapes of every kind and of each alone."""
    kernels, image = compiled
    programs = [kernel.program for kernel in kernels.values()]
    table = fit("x", list(computed_samples())).table()
    constants = measure_gpu("float16", kernels["swapped"], image)
    assert constants.cluster_slots[0] == constants.num_sms
    assert constants.lone_bytes == 116736
    artifact = write_artifact(
        tmp_path / "artifact",
        TARGET,
        Workload("gemm", "float16"),
        "",
        [(list(kernels.values()), image)],
        {program: (program,) for program in programs},
        programs,
        {
            "kernels": {program.name: table for program in programs},
            "grid": GRID,
            "machine": asdict(constants),
        },
    )
    ranges = {p.name: range_shapes(p.config, constants.num_sms) for p in programs}
    records = record(artifact, drawn_shapes(24, 0), ranges, tmp_path / "launches")
    assert len(records) > 24 + 10 * len(programs)
    launched = {name for row in records for name, *_ in row["launches"]}
    assert launched == {program.name for program in programs}
    for kernel in refit(artifact.manifest, records)["kernels"]:
        assert len(kernel["cost"]["correction"]) == 269


def computed_samples():
    for k in (64, 256, 1024, 4096):
        for load in (0.1, 0.5, 1.0, 2.0, 4.0):
            yield LaunchSample(k, load, 1.0, 1, 1, 2.0 + math.ceil(load) * (1.0 + 4e-3 * k))


def test_few_tiles_are_tuned_from_search_to_costs(tmp_path):
    """Every step of a tuning run, in about a minute; the second time nothing is measured."""
    tiles = {
        *(("whole", 128, un) for un in (64, 128)),
        ("whole", 64, 64),
        ("split", 16, 64),
        ("residue", 64, 32),
        ("direct", 32, 32),
        ("gemv", 1, 16),
        ("strided", 64, 64),
    }
    workload = Workload("gemm", "float16")
    chosen = [
        c for c in candidates(TARGET, workload) if (c.tile.family, c.tile.um, c.tile.un) in tiles
    ]
    output = Sources(tmp_path / "records.jsonl", tmp_path / "costs.json")
    options = {"trials": 2, "launches": 20, "tiles": chosen, "work_dir": tmp_path / "work"}
    tuned = tune(TARGET, workload, output=output, **options)
    assert {"whole", "strided"} <= {record.family for record in tuned.records}
    costs = load_costs(output.costs, output.records)
    assert all(len(table["correction"]) == 269 for table in costs["kernels"].values())
    start = time.monotonic()
    again = tune(TARGET, workload, output=output, **options)
    assert [r.kernel for r in again.records] == [r.kernel for r in tuned.records]
    assert time.monotonic() - start < 60


@pytest.mark.parametrize("types", PAIRS, ids=map(":".join, PAIRS))
def test_every_type_computes_what_numpy_does(typed, types):
    on = bench(types[0])
    for kernel in (k for k in typed.kernels if types_of(k) == types):
        function, slots = on.load(kernel, typed.image)
        for launch in (*checks(kernel), Launch(1, 1, 16), Launch(65, 15, 1040)):
            on.check(kernel, function, slots, launch)


def test_sums_of_float8_are_cut_off_as_the_bounds_assume(typed):
    on = bench("float8_e4m3fn")
    [kernel] = [k for k in typed.kernels if types_of(k) == ("float8_e4m3fn", "float32")]
    function, slots = on.load(kernel, typed.image)
    launch = Launch(65, 15, 1040)
    on.launcher(kernel, function, slots, launch)()
    found = on.result(launch, "float32")
    a, b = on.operands(launch, launch.k)
    assert np.array_equal(found, float8_sums(a, b))
    assert not np.array_equal(found, a @ b.T)
