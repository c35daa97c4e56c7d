"""The kept set is chosen for what it does together."""

from __future__ import annotations

import numpy as np
import pytest

from moonpoly.autotune.candidates import Candidate
from moonpoly.autotune.rank import SyntheticShape, plan_costs, rank, synthetic_shapes
from moonpoly.schedules import Tile


def _candidate(um, un, family="outer"):
    return Candidate(f"{family}_{um}x{un}", Tile(family, um, un), 16, "float32")


def _costs(candidates, rates):
    """Cost tables: fixed 0.01 µs a task and `rates` elements a nanosecond."""

    def task_us(index, shapes):
        tile = candidates[index].tile
        return np.array([0.01 + tile.um * tile.un * s.k / rates[index] / 1e3 for s in shapes])

    return task_us


SHAPES = tuple(
    SyntheticShape(m, n, 256, "packed") for m in (8, 16, 17, 24, 25, 33, 40) for n in (32, 64, 128)
)


def test_a_plan_takes_the_remainder_with_a_second_kernel():
    candidates = [_candidate(8, 32), _candidate(1, 32)]
    shape = SyntheticShape(17, 32, 256, "packed")
    costs = plan_costs(candidates, _costs(candidates, [100.0, 20.0]), [shape], 0.0)[0]
    tall, low = 0.01 + 8 * 32 * 256 / 1e5, 0.01 + 32 * 256 / 2e4
    assert costs[0, 0] == pytest.approx(3 * tall)
    assert costs[0, 1] == pytest.approx(2 * tall + low)
    assert costs[1, 1] == pytest.approx(17 * low)


def test_the_second_kernel_kept_is_the_one_that_helps_the_first():
    # 7x32 is nearly as fast as 8x32 but adds nothing beside it; the slow 1x32 saves remainders.
    candidates = [_candidate(8, 32), _candidate(7, 32), _candidate(1, 32)]
    ranking = rank(candidates, _costs(candidates, [100.0, 99.0, 40.0]), SHAPES, 2, 0.0)
    assert ranking.kept == (0, 2)
    assert ranking.loss[1] < ranking.loss[0]


def test_a_kernel_that_never_helps_is_left_out():
    candidates = [_candidate(8, 32), _candidate(8, 64)]
    ranking = rank(candidates, _costs(candidates, [100.0, 1.0]), SHAPES, 2, 0.0)
    assert ranking.kept == (0,)
    assert ranking.loss == (1.0,)


def test_no_more_are_kept_than_asked():
    candidates = [_candidate(um, 32) for um in range(1, 9)]
    ranking = rank(candidates, _costs(candidates, [50.0] * 8), SHAPES, 3, 0.0)
    assert len(ranking.kept) == 3
    assert list(ranking.loss) == sorted(ranking.loss, reverse=True)


def test_a_row_major_b_is_never_given_to_a_dot_kernel():
    candidates = [_candidate(4, 32), _candidate(4, 4, "dot")]
    shapes = [SyntheticShape(64, 64, 256, layout) for layout in ("row", "packed", "transposed")]
    costs = plan_costs(candidates, _costs(candidates, [10.0, 90.0]), shapes, 0.1)
    assert np.isinf(costs[:2, 1, 1]).all()
    assert np.isfinite(costs[2, 1, 1])


def test_an_outer_kernel_pays_for_packing_a_transposed_b():
    candidates = [_candidate(4, 32)]
    shapes = [SyntheticShape(64, 64, 256, layout) for layout in ("packed", "transposed")]
    costs = plan_costs(candidates, _costs(candidates, [10.0]), shapes, 0.5)[:, 0, 0]
    assert costs[1] - costs[0] == pytest.approx(0.5 * 64 * 256 * 4 / 1024)


def test_the_shapes_are_the_same_each_time_and_hold_remainders():
    shapes = synthetic_shapes(300)
    assert shapes == synthetic_shapes(300)
    sides = {side for shape in shapes for side in (shape.m, shape.n)}
    assert {1, 2, 3, 5, 7, 11, 13} <= sides
    assert any(side & (side - 1) for side in sides if side > 64)
    assert any(not side & (side - 1) for side in sides if side > 64)
