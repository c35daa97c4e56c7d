"""The shapes that validity and oracle choose, and how validity survives an interruption."""

from __future__ import annotations

import numpy as np
import pytest

from moonpoly.benchmarks import oracle, validity


def test_random_shapes_are_distinct_and_hold_ones_and_primes():
    shapes = validity.random_shapes(0)
    assert len(shapes) == len(set(shapes)) == 2_000
    assert shapes == validity.random_shapes(0)
    extents = [extent for shape in shapes for extent in shape]
    assert sum(extent == 1 for extent in extents) > 500
    assert sum(validity._is_prime(extent) for extent in extents) > 2_000


def test_the_whole_sweep_is_8192_heights_and_2000_random_shapes():
    rows, shapes = validity._draw(None, 0)
    assert rows == list(range(1, 8_193))
    assert len(shapes) == 2_000
    rows, shapes = validity._draw(100, 0)
    assert len(rows) + len(shapes) == 100
    assert len(rows) == 80


def test_a_guard_shows_a_write_outside_the_matrix():
    guarded = validity.Guarded(3, 5)
    guarded.matrix[:] = 1.0
    assert guarded.intact()
    guarded._all[validity._GUARD + 15] = 0.0
    assert not guarded.intact()


@pytest.mark.parametrize("value", [np.nan, 1.0])
def test_largest_error_sees_any_entry(value):
    exact = np.zeros((300, 4))
    got = np.zeros((300, 4), np.float32)
    got[7, 3] = value
    error = validity._largest_error(got, exact, np.full((300, 4), 2.0))
    assert error == 0.5 if value == 1.0 else np.isnan(error)


def test_an_interrupted_run_goes_on_and_a_finished_one_leaves_nothing(tmp_path):
    path = tmp_path / "folder" / "progress.jsonl"
    verdict = validity.Verdict("sweep", 1, 2, 3, True, 0.0)
    with pytest.raises(KeyboardInterrupt), validity._Progress(path) as progress:
        progress.add(verdict)
        raise KeyboardInterrupt
    with path.open("a") as file:
        file.write('{"sweep": "ran')  # the line that was being written
    with validity._Progress(path) as progress:
        assert progress.done == [verdict]
    assert not path.exists()


def test_held_out_shapes_have_no_power_of_two():
    shapes = oracle.held_out_shapes(120, 0)
    assert len(set(shapes)) == 120
    assert all(extent & (extent - 1) for shape in shapes for extent in shape)
