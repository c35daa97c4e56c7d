"""The task-cost model follows a known cost, and its tables are fit to be interpolated."""

from __future__ import annotations

import numpy as np
import pytest

from moonpoly.autotune.calibrate import SAMPLE_MS
from moonpoly.autotune.candidates import Candidate
from moonpoly.autotune.cost_model import GRID, LAYOUTS, Samples, fit
from moonpoly.autotune.export import candidates_of
from moonpoly.autotune.records import load_records
from moonpoly.autotune.sample import far_samples, near_samples, plan_samples
from moonpoly.autotune.sources import installed_sources
from moonpoly.error import TuneError
from moonpoly.schedules import Tile
from moonpoly.target import Target
from moonpoly.workload import Workload

OUTER = Candidate("gemm_f32_avx512_8x32", Tile("outer", 8, 32), 16, "float32")
DOT = Candidate("gemm_dot_f32_avx512_4x4", Tile("dot", 4, 4), 16, "float32")
OWN_CACHE = 1 << 20

LAYOUT_FACTOR = {
    "packed": 1.0,
    "packed_aliased": 1.2,
    "packed_unaligned": 1.15,
    "strided": 1.3,
    "aliased": 2.0,
    "unaligned": 1.5,
}


def _true_us(candidate, shape):
    """A line, dearer by 60 % where operands leave the unit's own cache, and by how B and C lie."""
    line = 0.02 + 0.03 / (shape.m_tiles * shape.n_tiles) + 1e-3 * shape.k
    far = shape.num_bytes(candidate.tile) > OWN_CACHE
    return line * (1.6 if far else 1.0) * LAYOUT_FACTOR[shape.layout]


def _shapes(candidate, count, seed):
    near = near_samples(candidate, count, OWN_CACHE, seed)
    return [*near, *far_samples(candidate, count, OWN_CACHE, seed)]


def _samples(candidate, count=400, noise=0.0):
    rng = np.random.default_rng(5)
    shapes = _shapes(candidate, count, seed=3)
    costs = [_true_us(candidate, s) * np.exp(noise * rng.standard_normal()) for s in shapes]
    return Samples(candidate, shapes, costs)


@pytest.fixture(scope="module")
def models():
    return dict(zip((OUTER, DOT), fit([_samples(OUTER), _samples(DOT)], OWN_CACHE), strict=True))


@pytest.mark.parametrize("candidate", [OUTER, DOT], ids=lambda c: c.name)
def test_held_out_costs_are_predicted(models, candidate):
    shapes = _shapes(candidate, 100, seed=4)
    want = np.array([_true_us(candidate, s) for s in shapes])
    error = np.abs(models[candidate].task_us(shapes) / want - 1)
    assert np.median(error) < 0.04
    assert np.quantile(error, 0.9) < 0.15


def test_a_table_has_a_cost_for_each_point_and_never_falls_with_k():
    (model,) = fit([_samples(OUTER, noise=0.05)], OWN_CACHE)
    for layout in LAYOUTS:
        table = np.array(model.table(layout))
        assert table.shape == (len(GRID["k"]) * len(GRID["m_tiles"]) * len(GRID["n_tiles"]),)
        assert (table > 0).all()
        assert (np.diff(table.reshape(len(GRID["k"]), -1), axis=0) >= 0).all()


@pytest.mark.parametrize("layout", LAYOUTS[1:])
def test_a_layout_of_b_and_c_costs_what_was_measured(models, layout):
    ratio = np.array(models[OUTER].table(layout)) / np.array(models[OUTER].table("packed"))
    assert np.median(ratio) == pytest.approx(LAYOUT_FACTOR[layout], rel=0.08)


def test_layouts_are_those_that_a_kernel_can_meet(models):
    assert models[DOT].layouts == ("packed", "aliased", "unaligned")
    assert models[OUTER].layouts == LAYOUTS


def test_the_same_samples_give_the_same_table():
    first, second = (fit([_samples(DOT)], OWN_CACHE)[0] for _ in range(2))
    assert first.table("packed") == second.table("packed")


def test_a_kernel_without_far_samples_keeps_its_cost_beyond_the_cache():
    near = list(near_samples(DOT, 60, OWN_CACHE, seed=3))
    (model,) = fit([Samples(DOT, near, [_true_us(DOT, s) for s in near])], OWN_CACHE)
    assert model.memory is None
    assert (np.array(model.table("packed")) > 0).all()


def test_too_few_samples_are_refused():
    shapes = list(near_samples(OUTER, 5, OWN_CACHE, seed=1))
    with pytest.raises(TuneError, match="5 cost samples"):
        fit([Samples(OUTER, shapes, [1.0] * 5)], OWN_CACHE)


def test_samples_lie_on_their_side_of_the_cache():
    for candidate in (OUTER, DOT):
        near = list(near_samples(candidate, 200, OWN_CACHE, seed=9))
        far = list(far_samples(candidate, 200, OWN_CACHE, seed=9))
        assert all(s.num_bytes(candidate.tile) <= OWN_CACHE / 2 for s in near)
        assert sum(s.num_bytes(candidate.tile) > OWN_CACHE / 2 for s in far) > 0.95 * len(far)
        assert {s.m_tiles for s in near} >= {1}
        layouts = {s.layout for s in (*near, *far)}
        if candidate.tile.family == "dot":
            assert layouts >= {"packed", "unaligned"}
            continue
        assert all(s.row_stride >= s.n_tiles * candidate.tile.un for s in (*near, *far))
        assert layouts == set(LAYOUTS)


def test_near_samples_have_long_reductions_as_often_as_short_ones():
    for candidate in (OUTER, DOT):
        k = np.log2([s.k for s in near_samples(candidate, 400, OWN_CACHE, seed=9) if s.k >= 8])
        shares, _ = np.histogram(k, bins=4, range=(3.0, k.max()))
        assert shares / len(k) == pytest.approx([0.25] * 4, abs=0.07)


def test_calibration_takes_two_minutes_at_most():
    """By counting: two passes, two runs in each, at a quarter of what kernels do in cache."""
    target, flops = Target.parse("x86-avx512"), 60e9
    records = load_records(installed_sources(target, Workload()).records)
    seconds = [
        2 * max(SAMPLE_MS / 2e3, 2 * 2 * s.k * s.m_tiles * s.n_tiles * tile.um * tile.un / flops)
        for candidate in candidates_of(records, target, Workload())[::4]
        for tile in [candidate.tile]
        for s in plan_samples(candidate, 2 << 20)
    ]
    # Compiling and fitting take the rest.
    assert sum(seconds) * 4 < 95


def test_far_samples_are_the_same_problems_for_all_kernels():
    tall = Candidate("tall", Tile("outer", 16, 32), 16, "float32")
    low = {(s.k, s.m_tiles * 8) for s in far_samples(OUTER, 100, OWN_CACHE, seed=2)}
    same = sum(
        any((s.k, s.m_tiles * 16 - less) in low for less in (0, 8))
        for s in far_samples(tall, 100, OWN_CACHE, seed=2)
    )
    assert same > 80
