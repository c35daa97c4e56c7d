"""The layout that micro-kernels read a constant B in."""

from __future__ import annotations

import numpy as np


def is_narrow(num_columns: int, panel: int) -> bool:
    """Whether a constant B is kept as its columns, each contiguous along k, instead of in panels.

    Half a panel or more would be padding, and the kernels for thin outputs read whole columns.
    """
    return num_columns <= panel // 2


def pack_weight(weight: np.ndarray, panel: int) -> np.ndarray:
    """Cut B into panels of ``panel`` columns, each contiguous along k, padded with zeros.

    Parameters
    ----------
    weight
        Shape (…, k, n).
    panel
        Columns of one panel.

    Returns
    -------
    packed
        Shape (…, ceil(n / panel), k, panel), the same dtype, compact.
    """
    *batch, k, n = weight.shape
    num_panels = -(-n // panel)
    padded = np.zeros((*batch, k, num_panels * panel), dtype=weight.dtype)
    padded[..., :n] = weight
    panels = padded.reshape(*batch, k, num_panels, panel)
    return np.ascontiguousarray(np.moveaxis(panels, -2, -3))
