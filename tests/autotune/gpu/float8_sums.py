"""How Hopper's tensor cores add up products of 8-bit floats: what bounds of errors are drawn from.

One instruction adds 32 products to a sum. With 2**e the largest power of two among the sum's and
the products' (a product's exponent is the sum of its factors'), it cuts every term off at
2**(e - 13), adds exactly, and keeps 13 bits behind the leading one of the result. A test on a GPU
compares the bits.
"""

from __future__ import annotations

import numpy as np

FRACTION_BITS = 13
TERMS = 32
_NONE = -1000


def exponents(x: np.ndarray) -> np.ndarray:
    """Return floor(log2 |x|), and far less than any other of zeros."""
    return np.where(x == 0, _NONE, np.frexp(x)[1] - 1)


def cut(x: np.ndarray, exponent: np.ndarray) -> np.ndarray:
    """Return x without the bits below 2**(exponent - 13), as if there were nothing there."""
    unit = np.exp2(np.maximum(exponent, -500.0) - FRACTION_BITS)
    return np.trunc(x / unit) * unit


def float8_sums(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Return A (m, k) times B (n, k) transposed, float64 values of 8-bit floats, as they add up."""
    total = np.zeros((len(a), len(b)))
    for start in range(0, a.shape[1], TERMS):
        left, right = a[:, None, start : start + TERMS], b[None, :, start : start + TERMS]
        products = left * right
        of_products = np.where(products == 0, _NONE, exponents(left) + exponents(right))
        largest = np.maximum(of_products.max(axis=-1), exponents(total))
        added = cut(products, largest[..., None]).sum(axis=-1) + cut(total, largest)
        total = cut(added, exponents(added))
    return total
