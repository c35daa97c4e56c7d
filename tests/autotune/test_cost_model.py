"""The task-cost model follows a known cost, and its tables are fit to be interpolated."""

from __future__ import annotations

import numpy as np
import pytest

from moonpoly.autotune.candidates import Candidate
from moonpoly.autotune.cost_model import GRID, LAYOUTS, fit
from moonpoly.autotune.sample import plan_samples
from moonpoly.error import TuneError
from moonpoly.schedules import Tile

OUTER = Candidate("gemm_f32_avx512_8x32", Tile("outer", 8, 32), 16, "float32")
DOT = Candidate("gemm_dot_f32_avx512_4x4", Tile("dot", 4, 4), 16, "float32")


LAYOUT_FACTOR = {"packed": 1.0, "strided": 1.3, "aliased": 2.0}


def _true_us(candidate, shape):
    """A line, dearer by 60 % where B leaves the second cache, by 30 % row-major, 2x if aliased."""
    line = 0.02 + 0.03 / (shape.m_tiles * shape.n_tiles) + 1e-3 * shape.k
    b_bytes = 4 * shape.k * shape.n_tiles * candidate.tile.un
    return line * (1.6 if b_bytes > 1 << 20 else 1.0) * LAYOUT_FACTOR[shape.layout]


def _fitted(candidate, count=160, noise=0.0):
    rng = np.random.default_rng(5)
    shapes = list(plan_samples(candidate, count, seed=3))
    costs = [_true_us(candidate, s) * np.exp(noise * rng.standard_normal()) for s in shapes]
    return fit(candidate, shapes, costs)


@pytest.mark.parametrize("candidate", [OUTER, DOT], ids=lambda c: c.name)
def test_held_out_costs_are_predicted(candidate):
    model = _fitted(candidate)
    shapes = list(plan_samples(candidate, 100, seed=4))
    want = np.array([_true_us(candidate, s) for s in shapes])
    error = np.abs(model.task_us(shapes) / want - 1)
    assert np.median(error) < 0.04
    assert np.quantile(error, 0.9) < 0.15


def test_a_table_has_a_cost_for_each_point_and_never_falls_with_k():
    model = _fitted(OUTER, noise=0.05)
    for layout in LAYOUTS:
        table = np.array(model.table(layout))
        assert table.shape == (len(GRID["k"]) * len(GRID["m_tiles"]) * len(GRID["n_tiles"]),)
        assert (table > 0).all()
        assert (np.diff(table.reshape(len(GRID["k"]), -1), axis=0) >= 0).all()


@pytest.mark.parametrize("layout", ["strided", "aliased"])
def test_a_row_major_b_costs_what_was_measured(layout):
    model = _fitted(OUTER, count=400)
    ratio = np.array(model.table(layout)) / np.array(model.table("packed"))
    assert np.median(ratio) == pytest.approx(LAYOUT_FACTOR[layout], rel=0.1)


def test_a_dot_kernel_has_one_layout():
    model = _fitted(DOT)
    assert model.table("aliased") == model.table("strided") == model.table("packed")


def test_the_same_samples_give_the_same_table():
    assert _fitted(DOT).table("packed") == _fitted(DOT).table("packed")


def test_too_few_samples_are_refused():
    shapes = list(plan_samples(OUTER, 5, seed=1))
    with pytest.raises(TuneError, match="5 cost samples"):
        fit(OUTER, shapes, [1.0] * 5)


def test_samples_stay_within_their_bounds():
    for candidate in (OUTER, DOT):
        shapes = list(plan_samples(candidate, 200, seed=9))
        assert all(s.k * s.m_tiles * s.n_tiles >= 1 for s in shapes)
        assert {s.m_tiles for s in shapes} >= {1}
        strided = [s for s in shapes if s.row_stride]
        assert all(s.row_stride >= s.n_tiles * candidate.tile.un for s in strided)
        assert bool(strided) == (candidate.tile.family == "outer")
