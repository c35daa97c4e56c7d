"""Choose the kernels to keep by what launches took: the set that runs recorded shapes best.

Kernels are added one at a time, each time the one that most lowers the mean logarithm of the best
launches' times, and then exchanged while that lowers it further. Kernels that share a function
count once.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

# Where nothing serves a shape it takes so many times the best one's time.
_UNSERVED = math.log(4.0)
# Shapes whose launches may not overlap count less: by themselves most callers let them.
_APART_WEIGHT = 0.5
# More kernels take longer to choose from.
_LEAST_GAIN = 3e-5
_EXCHANGES = 2
Matrix = npt.NDArray[np.float64]


def choose(
    functions: Mapping[str, Hashable],
    records: Sequence[Mapping[str, Any]],
    most: int,
    most_kernels: int,
    always: Sequence[str] = (),
) -> list[str]:
    """Return the names of the kernels to keep.

    Parameters
    ----------
    functions
        The compiled function of each kernel that may be kept, by the kernel's name.
    records
        Shapes with their launches, as :mod:`~moonpoly.autotune.gpu.record` makes them.
    most, most_kernels
        Functions, and kernels, that may be kept.
    always
        Kernels that are kept whatever they took, as they serve what no record has.
    """
    names = list(functions)
    logs, weights = _slower(names, records)
    kept = [names.index(name) for name in always]

    def loss_with(chosen: Sequence[int]) -> tuple[Matrix, Matrix]:
        """What every shape loses with the chosen, and what all do with one more of each."""
        best = logs[:, list(chosen)].min(axis=1, initial=_UNSERVED)
        return best, weights @ np.minimum(best[:, None], logs)

    def next_of(chosen: Sequence[int]) -> tuple[int, float]:
        """The kernel to add, and what that gains."""
        best, losses = loss_with(chosen)
        held = {functions[names[index]] for index in chosen}
        full = len(held) >= most
        for index, name in enumerate(names):
            if index in chosen or (full and functions[name] not in held):
                losses[index] = np.inf
        index = int(np.argmin(losses))
        return index, float(weights @ best) - float(losses[index])

    while len(kept) < most_kernels:
        index, gain = next_of(kept)
        if gain < _LEAST_GAIN:
            break
        kept.append(index)
    for _ in range(_EXCHANGES):
        for place in range(len(always), len(kept)):
            rest = kept[:place] + kept[place + 1 :]
            index, gain = next_of(rest)
            now = float(weights @ loss_with(rest)[0] - weights @ loss_with(kept)[0])
            if gain > now + _LEAST_GAIN:
                kept[place] = index
    return [names[index] for index in sorted(kept)]


def losses(
    kept: Sequence[str], names: Sequence[str], records: Sequence[Mapping[str, Any]]
) -> tuple[float, ...]:
    """Return after each kept kernel the mean time of the best launches over that of all ``names``.

    The mean is that of logarithms.
    """
    logs, weights = _slower(names, records)
    best = np.minimum.accumulate(logs[:, [names.index(name) for name in kept]], axis=1)
    return tuple(np.exp(weights @ best).tolist())


def _slower(names: Sequence[str], records: Sequence[Mapping[str, Any]]) -> tuple[Matrix, Matrix]:
    """Return how many times the best launch's time each kernel's took, as logarithms of shapes by
    kernels, and the weights of the shapes.

    A shape counts with launches that may overlap, of which the faster way is taken, and without.
    """
    columns = {name: column for column, name in enumerate(names)}
    rows: dict[tuple[int, int, int, bool], Matrix] = {}
    for record in records:
        shape = record["m"], record["n"], record["k"]
        for may_overlap in (True,) if record["overlap"] else (True, False):
            row = rows.setdefault((*shape, may_overlap), np.full(len(names), np.inf))
            for name, _, _, us in record["launches"]:
                if name in columns:
                    row[columns[name]] = min(row[columns[name]], us)
    served = {key: row for key, row in rows.items() if np.isfinite(row).any()}
    logs = np.log(np.stack(list(served.values())))
    logs = np.minimum(logs - logs.min(axis=1, keepdims=True), _UNSERVED)
    weights = np.array([1.0 if key[3] else _APART_WEIGHT for key in served])
    return logs, weights / weights.sum()
