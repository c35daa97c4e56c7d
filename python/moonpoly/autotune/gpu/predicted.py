"""Launches as the selector sees them: what the costs of kernels say of a recorded shape."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

# As the selector gives them: numbers before a launch's terms, and terms.
_NUMBERS, TERMS = 7, 269
Key: TypeAlias = tuple[str, int, int]


@dataclass(frozen=True)
class Predicted:
    """A launch as the selector sees it: µs by its kernel's table, by the selector, and the terms
    whose weights correct the one to the other."""

    table_us: float
    predicted_us: float
    load: float
    overlap: bool
    terms: npt.NDArray[np.float64]


class Predictions:
    """What the kernels of a manifest are predicted to take.

    Parameters
    ----------
    manifest
        A GPU artifact's, its costs as they are now.
    """

    def __init__(self, manifest: Mapping[str, Any]) -> None:
        self._manifest = manifest
        self._names = [kernel["name"] for kernel in manifest["kernels"]]
        self._sets: dict[str, tuple[list[str], Any]] = {}

    def of(self, record: Mapping[str, Any]) -> dict[Key, Predicted]:
        """Return the launches of one region for a record's shape, by kernel, cluster and slices.

        They overlap where the record's do. Where it is of one kernel alone, so are they.
        """
        from moonpoly import _ffi_api

        launched = {name for name, *_ in record.get("launches", ())}
        names, kernels = self._set(launched.pop() if len(launched) == 1 else "")
        shape = record["m"], record["n"], record["k"]
        ways = {"access": record["access"], "overlap": record["overlap"]}
        flat = np.from_dlpack(_ffi_api.gpu_launches(kernels, *shape, **ways))
        launches: dict[Key, Predicted] = {}
        rows = flat.reshape(-1, _NUMBERS + TERMS)
        for (index, cluster, slices, overlap, us, predicted_us, load), terms in zip(
            rows[:, :_NUMBERS].tolist(), rows[:, _NUMBERS:], strict=True
        ):
            key = names[int(index)], int(cluster), int(slices)
            # Short launches are there both ways.
            if key not in launches or bool(overlap) == record["overlap"]:
                launches[key] = Predicted(us, predicted_us, load, bool(overlap), terms)
        return launches

    def _set(self, only: str) -> tuple[list[str], Any]:
        """Return all kernels' names and set, or those of one known kernel."""
        from moonpoly import _ffi_api

        only = only if only in self._names else ""
        if only not in self._sets:
            kernels = [each for each in self._manifest["kernels"] if only in ("", each["name"])]
            text = json.dumps({**self._manifest, "kernels": kernels})
            names = [each["name"] for each in kernels]
            self._sets[only] = names, _ffi_api.GpuKernelSet(text, {})
        return self._sets[only]
