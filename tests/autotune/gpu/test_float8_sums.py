"""The bounds that products of 8-bit floats are held to follow from how their sums are cut off."""

from __future__ import annotations

import ml_dtypes
import pytest
from tolerances import OPERATOR_REL, operator_error

from moonpoly.autotune.gpu.launch import _EXACT_SUM, _LARGEST_INTEGER

from .float8_sums import float8_sums

FLOAT8 = "float8_e4m3fn"


def draw(rng, rows, k):
    return rng.uniform(-1, 1, (rows, k)).astype(ml_dtypes.float8_e4m3fn).astype(float)


@pytest.mark.parametrize("k", [1, 31, 128, 1000, 20_000])
def test_random_products_keep_the_bound_at_any_length(rng, k):
    a, b = draw(rng, 9, k), draw(rng, 7, k)
    error = operator_error(float8_sums(a, b), a, b.T)
    assert error <= OPERATOR_REL[FLOAT8] / 4


def test_terms_of_one_sign_lose_more_than_the_bound(rng):
    a = abs(draw(rng, 4, 8192))
    assert operator_error(float8_sums(a, a), a, a.T) > OPERATOR_REL[FLOAT8]


def test_small_integers_add_up_exactly_whatever_their_signs(rng):
    k = _EXACT_SUM // _LARGEST_INTEGER**2 - 1
    a, b = (rng.integers(-_LARGEST_INTEGER, _LARGEST_INTEGER + 1, (5, k)) for _ in "ab")
    a[0], b[0] = _LARGEST_INTEGER, _LARGEST_INTEGER
    assert (float8_sums(a.astype(float), b.astype(float)) == a @ b.T).all()
