"""One table of tolerances for every test and every benchmark that checks its results.

An operator is compared with float64 NumPy. The error of a float32 dot product grows with the
length of the sum, so the operator bound is relative to ``|A| @ |B|``, the size of what was summed
(the usual backward-error bound), not to the result, which may cancel to nothing.
"""

from __future__ import annotations

import numpy as np

# max |got - exact| / (|A| @ |B|): one rounding per step in the worst case, far less in practice.
# For 16-bit types this bounds what is left after rounding the exact result to the type: tensor
# cores cut off the sums of 16 products instead of rounding them.
# Products of 8-bit floats are added up with 14 bits, of which every addition cuts off the rest:
# the bound is for terms of either sign, see "Sums of 8-bit floats" in docs/gpu.md.
OPERATOR_REL = {
    "float32": 2e-6,
    "float16": 1e-5,
    "bfloat16": 1e-5,
    "tf32": 1e-5,
    "float8_e4m3fn": 2e-3,
}

# Half a unit in the last place, relative to the value.
ROUNDING_REL = {"float16": 2.0**-11, "bfloat16": 2.0**-8, "float32": 2.0**-24}

# Relative to the largest magnitude of the reference output, for whole models in float32. Models in
# 16 bits are compared with the same weights in float32: each of their layers rounds its result.
MODEL_REL = {"float32": 1e-4, "float16": 2.0**-9, "bfloat16": 2.0**-6}

# Elementwise and normalising operators: relative to the largest magnitude of the exact result.
ELEMENTWISE_REL = {"float32": 2e-6}


def operator_error(got: np.ndarray, a: np.ndarray, b: np.ndarray) -> float:
    """Return the largest error of ``got`` = ``a @ b`` relative to ``|a| @ |b|`` in float64."""
    a64, b64 = np.asarray(a, dtype=np.float64), np.asarray(b, dtype=np.float64)
    exact, size = a64 @ b64, np.abs(a64) @ np.abs(b64)
    if exact.size == 0:
        return 0.0
    return float(np.max(np.abs(got - exact) / np.maximum(size, np.finfo(np.float32).tiny)))


def rounded_operator_error(got: np.ndarray, a: np.ndarray, b: np.ndarray, dtype: str) -> float:
    """Return the largest error of ``got`` = ``a @ b`` beyond rounding, relative to ``|a| @ |b|``.

    NaN if any entry is: it compares as too large with every bound.
    """
    a64, b64 = np.asarray(a, dtype=np.float64), np.asarray(b, dtype=np.float64)
    exact, size = a64 @ b64, np.abs(a64) @ np.abs(b64)
    if exact.size == 0:
        return 0.0
    beyond = np.abs(np.asarray(got, np.float64) - exact) - ROUNDING_REL[dtype] * np.abs(exact)
    # Below the smallest normal number the spacing no longer shrinks with the value.
    beyond -= 2.0**-25 if dtype == "float16" else 0.0
    return float(np.max(beyond / np.maximum(size, np.finfo(np.float32).tiny)))


def model_error(got: np.ndarray, want: np.ndarray) -> float:
    """Return the largest error of ``got`` relative to the largest magnitude of ``want``."""
    if want.size == 0:
        return 0.0
    scale = max(float(np.max(np.abs(want))), float(np.finfo(np.float32).tiny))
    return float(np.max(np.abs(got.astype(np.float64) - want.astype(np.float64)))) / scale
