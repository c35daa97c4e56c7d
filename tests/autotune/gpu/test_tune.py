"""A tuning run from search to cost tables, on a GPU whose times are computed."""

from __future__ import annotations

import json
import math
import shutil

import numpy as np
import pytest

from moonpoly import _ffi_api
from moonpoly.autotune.candidates import candidates
from moonpoly.autotune.costs import load_costs
from moonpoly.autotune.export import candidates_of
from moonpoly.autotune.gpu import contest, search, tune
from moonpoly.autotune.gpu.export import describe, program_of
from moonpoly.autotune.gpu.launched_costs import num_launches
from moonpoly.autotune.gpu.record import near_plans
from moonpoly.autotune.gpu.shapes import drawn_shapes
from moonpoly.autotune.gpu.workspace import GpuWorkspace
from moonpoly.autotune.records import load_records
from moonpoly.autotune.sources import Sources
from moonpoly.error import TuneError
from moonpoly.schedules.cuda import configs
from moonpoly.target import Target
from moonpoly.workload import Workload

from . import computed_gpu
from .computed_gpu import Recorder, Worker, recorded_us

TARGET, WORKLOAD = Target.parse("cuda-sm90a"), Workload("gemm", "float16")
TILES = {("whole", 128, 128), ("whole", 64, 64), ("split", 16, 64), ("strided", 64, 64)}
LAUNCHES = 12


def few_tiles():
    """Return the candidates of a few tiles."""
    return [
        c for c in candidates(TARGET, WORKLOAD) if (c.tile.family, c.tile.um, c.tile.un) in TILES
    ]


def tuner(folder):
    """Return a function that tunes a few tiles, again and again in the same folder."""
    chosen = few_tiles()
    output = Sources(folder / "records.jsonl", folder / "costs.json")

    def once(launches=LAUNCHES):
        Worker.timed = Worker.sampled = Recorder.steps = 0
        _, loss = tune.tune_gpu(TARGET, chosen, 40, launches, folder / "work", output)
        return chosen, output, loss

    return once


@pytest.fixture(scope="module")
def searched(tmp_path_factory):
    """Return a folder whose tiles were searched and sampled, what that gave, and the trials."""
    folder = tmp_path_factory.mktemp("searched")
    with pytest.MonkeyPatch.context() as patch:
        computed_gpu.install(patch)
        patch.setattr(contest, "_NUM_SHAPES", 30)
        found = tuner(folder)()
    shutil.rmtree(folder / "work" / "launches")
    return folder, found, Worker.timed


@pytest.fixture
def run(monkeypatch, tmp_path, searched):
    """Return a function that goes on from there, again and again in the same folder."""
    computed_gpu.install(monkeypatch)
    monkeypatch.setattr(contest, "_NUM_SHAPES", 30)
    shutil.copytree(searched[0], tmp_path, dirs_exist_ok=True)
    return tuner(tmp_path)


def planner(output):
    """Return the kernels of what was written, as they are planned with."""
    records = load_records(output.records)
    costs = load_costs(output.costs, output.records)
    programs = [
        program_of(TARGET, candidate, record)
        for candidate, record in zip(candidates_of(records, TARGET, WORKLOAD), records, strict=True)
    ]
    running = {"symbol": "", "cubin": ""}
    manifest = {
        "schema": 1,
        "target": {"name": TARGET.name},
        "op": "gemm",
        "dtype": "float16",
        "grid": costs["grid"],
        "machine": costs["machine"],
        "kernels": [
            describe(program, costs["kernels"])
            | running
            | {"params": ["grid", *["slices"] * program.config.slices]}
            for program in programs
        ],
    }
    return _ffi_api.GpuKernelSet(json.dumps(manifest), {})


def test_every_program_is_timed_once_and_the_best_are_kept(searched):
    _, (chosen, output, loss), timed = searched
    programs = sum(len(configs(candidate.tile)) for candidate in chosen)
    assert programs * 0.8 <= timed <= programs
    records = load_records(output.records)
    costs = load_costs(output.costs, output.records)
    assert {record.kernel for record in records} == set(costs["kernels"])
    assert len(loss) == len(records)
    assert loss == tuple(sorted(loss, reverse=True))
    # What fails is never kept, and what is slower in every situation neither.
    assert all(r.decisions["cluster_p"] == r.decisions["cluster_q"] == 1 for r in records)
    assert all(r.decisions["pingpong"] for r in records if r.um == 128)
    assert "strided" in {record.family for record in records}


@pytest.mark.parametrize("done", [True, False])
def test_searched_tiles_are_looked_at_only_while_others_compile(monkeypatch, tmp_path, done):
    class Compilers(computed_gpu.Pool):
        def submit(self, *call):
            future = super().submit(*call)
            future.done = lambda: done
            return future

    computed_gpu.install(monkeypatch)
    monkeypatch.setattr(search, "compile_pool", Compilers)
    chosen = few_tiles()
    timed, looked = [], []
    search.search(
        chosen,
        TARGET,
        GpuWorkspace(tmp_path),
        2,
        timed.append,
        lambda candidate, _worker: looked.append((candidate.name, len(timed))),
    )
    # Each tile when its two trials are measured, and none after the last one's compilers are done.
    each = [(candidate.name, 2 * place) for place, candidate in enumerate(chosen, 1)]
    assert looked == ([] if done else each[:-1])
    assert len(timed) == 2 * len(chosen)


def test_costs_are_corrected_and_say_what_launches_took(run, tmp_path):
    _, output, _ = run(60)
    costs = load_costs(output.costs, output.records)
    for name, table in costs["kernels"].items():
        assert list(table)[-2:] == ["narrow_us", "correction"], name
        assert len(table["correction"]) == 269
    kept = json.loads((tmp_path / "work" / "kept" / "manifest.json").read_text())
    before, after = _ffi_api.GpuKernelSet(json.dumps(kept), {}), planner(output)

    def error(kernels):
        # Of the launch that is chosen, which its correction is for.
        out = []
        for shape in drawn_shapes(90, 7)[:40]:
            told = {
                key_of(p): recorded_us(p)
                for p in near_plans(before, shape, "float16", 9.0, overlap=False)
            }
            plans = near_plans(kernels, shape, "float16", 1.0, overlap=False)
            out += [abs(math.log(p["predicted_us"] / told[key_of(p)])) for p in plans]
        return np.median(out)

    assert error(before) > 0.15
    assert error(after) < 0.04


def key_of(plan):
    [region] = plan["regions"]
    return region["kernel"], region["cluster"], region["slices"]


def test_no_more_are_kept_than_the_set_may_hold(run, monkeypatch):
    monkeypatch.setattr(contest, "MAX_KERNELS", 4)
    monkeypatch.setattr(contest, "_OF_EACH_WAY", 1)
    _, output, _ = run()
    assert 2 <= len(load_records(output.records)) <= 4


def test_a_second_run_does_nothing_again(run, searched):
    _, output, _ = run()
    before = load_costs(output.costs, output.records)
    assert Recorder.steps == 2 * LAUNCHES + len(before["kernels"])
    assert Worker.timed < searched[2] * 0.2
    run()
    assert Worker.sampled == Recorder.steps == 0
    after = load_costs(output.costs, output.records)
    assert [after[key] for key in ("kernels", "machine")] == [
        before[key] for key in ("kernels", "machine")
    ]


def test_more_launches_are_added_to_those_that_were_recorded(run):
    run()
    _, output, _ = run(LAUNCHES + 3)
    # More of the same shapes; where other kernels are kept because of them, all of theirs.
    assert Recorder.steps in (6, 3 + LAUNCHES + 3 + len(load_records(output.records)))


def test_a_recording_that_was_interrupted_goes_on(run, monkeypatch):
    def interrupt(_step):
        if Recorder.steps == 5:
            raise KeyboardInterrupt

    monkeypatch.setattr(Recorder, "fails", staticmethod(interrupt))
    with pytest.raises(KeyboardInterrupt):
        run()
    monkeypatch.setattr(Recorder, "fails", staticmethod(lambda _step: None))
    _, output, _ = run()
    assert Recorder.steps == 2 * LAUNCHES - 5 + len(load_records(output.records))


def test_a_step_that_fails_is_left_out_and_many_are_an_error(run, monkeypatch):
    failed = []

    def fail(step):
        if len(failed) < limit:
            failed.append(step)
            raise TuneError(f"{step} hangs")

    monkeypatch.setattr(Recorder, "fails", staticmethod(fail))
    limit = 3
    with pytest.raises(TuneError, match=r"failed 3 times.* hangs"):
        run()
    failed.clear()
    limit = 2
    run()
    assert Recorder.steps > LAUNCHES


def test_launches_are_refused_for_a_processor():
    with pytest.raises(TuneError, match="recorded on GPUs"):
        num_launches(Target.parse("x86-avx2"), 6)
    assert num_launches(TARGET, 6) == 6
    assert num_launches(TARGET, None) == 120
