from __future__ import annotations

from collections import Counter

import pytest

from moonpoly.benchmarks import shape_lists
from moonpoly.benchmarks.shape_lists import CLASSES, Problem
from moonpoly.error import InputError


def test_built_in_lists_hold_all_distinct_shapes():
    problems = shape_lists.load()
    shapes = {(p.m, p.n, p.k) for p in problems}
    assert len(problems) == len(shapes) == 166 + 1267
    assert Counter(p.source == "deepbench" for p in problems)[True] == 166


def test_every_class_occurs_in_the_built_in_lists():
    assert {p.kind for p in shape_lists.load()} == set(CLASSES)


@pytest.mark.parametrize(
    ("shape", "kind"),
    [
        ((1, 4096, 4096), "vector"),
        ((4096, 1, 4096), "vector"),
        ((7, 13, 31), "small"),
        ((16, 16, 100_000), "long-k"),
        ((20_000, 8, 512), "thin"),
        ((1024, 1024, 1024), "compute-bound"),
        ((167, 1000, 16), "memory-bound"),
    ],
)
def test_class_of_a_shape(shape, kind):
    assert Problem("test", *shape).kind == kind


def test_operations_and_bytes():
    problem = Problem("test", 2, 3, 5)
    assert problem.operations == 60
    assert problem.num_bytes == 4 * (10 + 15 + 6)
    assert problem.intensity == pytest.approx(60 / 124)


def test_sample_is_repeatable_and_keeps_the_shares_of_the_classes():
    problems = shape_lists.load()
    drawn = shape_lists.sample(problems, 143, seed=3)
    assert drawn == shape_lists.sample(problems, 143, seed=3)
    assert drawn != shape_lists.sample(problems, 143, seed=4)
    assert len(drawn) == len(set(drawn)) == 143
    whole, part = Counter(p.kind for p in problems), Counter(p.kind for p in drawn)
    for kind in CLASSES:
        assert abs(part[kind] - whole[kind] / 10) <= 1.5


def test_sample_of_none_or_too_many_is_everything():
    problems = [Problem("test", 1, 1, k) for k in range(1, 5)]
    assert shape_lists.sample(problems, None, 0) == problems
    assert shape_lists.sample(problems, 9, 0) == problems


def test_a_csv_of_ones_own_is_read_without_duplicates(tmp_path):
    path = tmp_path / "own.csv"
    path.write_text("k,m,n\n3,1,2\n3,1,2\n6,4,5\n")
    assert shape_lists.load(path) == [Problem("own", 1, 2, 3), Problem("own", 4, 5, 6)]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("m,n\n1,2\n", "line 2: expected integer columns"),
        ("m,n,k\n1,2,x\n", "line 2: expected integer columns"),
        ("m,n,k\n1,2,3\n1,0,3\n", "line 3: expected positive"),
        ("m,n,k\n", "lists no shapes"),
    ],
)
def test_a_bad_csv_is_named_with_its_line(tmp_path, text, message):
    path = tmp_path / "bad.csv"
    path.write_text(text)
    with pytest.raises(InputError, match=message):
        shape_lists.load(path)


def test_a_missing_csv_is_an_input_error(tmp_path):
    with pytest.raises(InputError, match="cannot read"):
        shape_lists.load(tmp_path / "none.csv")
