"""Recorded launches, and what fetching from the second-level cache has to do with them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

# So many launches tell a rate.
_FEWEST = 50
# Of a launch's time, how much fetching has to be for it to say nothing of the tiles.
_BOUND = 0.85


@dataclass(frozen=True)
class Fetching:
    """How tiles fetch: what rows are multiples of, from which bytes on launches tell how fast that
    goes, and the share of them that is slower than the rate."""

    key: str
    row_bytes: tuple[int, ...]
    much_bytes: float
    fastest: float


# By tensor maps whole lines of the cache, whole sectors or neither; straight into registers by
# loads of 16, 8, 4 or 2 bytes, where what else slows them is much more than the cache.
FETCHING = {
    "tma": Fetching("fetch_gbs", (128, 32), 1e8, 0.98),
    "direct": Fetching("direct_gbs", (16, 8, 4), 2e7, 0.9),
}
Rates = Mapping[str, Sequence[float]]


@dataclass(frozen=True)
class RecordedLaunch:
    """One recorded launch: µs measured and predicted, and where it lies on the table's axes.

    ``width`` says by how many elements C could be stored, and ``waves`` how many there are of
    tiles, however their reduction is shared.
    """

    us: float
    predicted_us: float
    k: float
    load: float
    cluster: int
    slices: int
    width: int
    # The first of what FETCHING names that rows of A and B are multiples of.
    rows: int
    loads: str
    fetched_bytes: float
    overlap: bool
    weight: float

    @property
    def waves(self) -> float:
        return max(1.0, self.load / self.slices)

    def narrow_us(self, cost: Mapping[str, Any]) -> float:
        """What of the prediction narrow stores are."""
        if self.width > 2:
            return 0.0
        return float(cost.get("narrow_us", (0.0, 0.0))[2 - self.width]) * self.waves


def rows_of(loads: str, row_bytes: int) -> int:
    units = FETCHING[loads].row_bytes if loads in FETCHING else ()
    return next((i for i, unit in enumerate(units) if row_bytes % unit == 0), len(units))


def fetched_items(spec: Mapping[str, Any], m: int, n: int, k: int) -> float:
    """Items of A and B that the tiles of a launch fetch; 0 where no rate bounds it."""
    if spec["loads"] not in FETCHING:
        return 0.0
    along_m, along_n = spec["cluster_p"], spec["cluster_q"]
    if spec["swapped"]:
        along_m, along_n = along_n, along_m
    bands, strips = -(-m // (spec["um"] * along_m)), -(-n // (spec["un"] * along_n))
    return float(k) * (strips * m + bands * n)


def fetch_rates(
    launches: Sequence[RecordedLaunch], machine: Mapping[str, Any]
) -> dict[str, list[float]]:
    """Return GB/s by how tiles fetch and how rows lie; or what was known before."""
    rates = {}
    for loads, way in FETCHING.items():
        found = []
        for kind in range(len(way.row_bytes) + 1):
            much = [
                x.fetched_bytes / max(x.us - machine["launch_us"], 0.1) / 1e3
                for x in launches
                if x.loads == loads and x.rows == kind and x.fetched_bytes >= way.much_bytes
            ]
            if len(much) >= _FEWEST:
                found.append(round(float(np.quantile(much, way.fastest)), 1))
        # More of a line is never slower.
        if len(found) == len(way.row_bytes) + 1:
            rates[loads] = sorted(found, reverse=True)
        elif way.key in machine:
            rates[loads] = list(machine[way.key])
    return rates


def is_bound(x: RecordedLaunch, launch_us: float, rates: Rates) -> bool:
    """Whether fetching parts of lines bounds a launch."""
    if x.loads not in rates or x.rows == 0:
        return False
    return launch_us + x.fetched_bytes / rates[x.loads][x.rows] / 1e3 > _BOUND * x.us
