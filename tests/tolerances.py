"""One table of tolerances for every test and every benchmark that checks its results.

An operator is compared with float64 NumPy. The error of a float32 dot product grows with the
length of the sum, so the operator bound is relative to ``|A| @ |B|``, the size of what was summed
(the usual backward-error bound), not to the result, which may cancel to nothing.
"""

from __future__ import annotations

import numpy as np

# max |got - exact| / (|A| @ |B|): one rounding per step in the worst case, far less in practice.
OPERATOR_REL = {"float32": 2e-6}

# Relative to the largest magnitude of the reference output, for whole models in float32.
MODEL_REL = {"float32": 1e-4}

# Elementwise and normalising operators: relative to the largest magnitude of the exact result.
ELEMENTWISE_REL = {"float32": 2e-6}


def operator_error(got: np.ndarray, a: np.ndarray, b: np.ndarray) -> float:
    """Return the largest error of ``got`` = ``a @ b`` relative to ``|a| @ |b|`` in float64."""
    a64, b64 = np.asarray(a, dtype=np.float64), np.asarray(b, dtype=np.float64)
    exact, size = a64 @ b64, np.abs(a64) @ np.abs(b64)
    if exact.size == 0:
        return 0.0
    return float(np.max(np.abs(got - exact) / np.maximum(size, np.finfo(np.float32).tiny)))


def model_error(got: np.ndarray, want: np.ndarray) -> float:
    """Return the largest error of ``got`` relative to the largest magnitude of ``want``."""
    if want.size == 0:
        return 0.0
    scale = max(float(np.max(np.abs(want))), float(np.finfo(np.float32).tiny))
    return float(np.max(np.abs(got.astype(np.float64) - want.astype(np.float64)))) / scale
