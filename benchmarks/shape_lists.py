"""The problem shapes of the benchmarks and their classes."""

from __future__ import annotations

import csv
import random
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from moonpoly.error import InputError

_FOLDER = Path(__file__).parent / "shapes"
_LISTS = {"deepbench": "deepbench_gemm.csv", "models": "gemm_models.csv"}

# Operations per byte below which this many cores wait for memory rather than for the FMA units.
_COMPUTE_INTENSITY = 20.0
_SMALL_OPERATIONS = 1 << 21
_THIN = 16
_LONG_K = 4096
_ITEM_BYTES = 4


@dataclass(frozen=True)
class Problem:
    """C (m, n) = A (m, k) · B (k, n) in float32, and the list it comes from."""

    source: str
    m: int
    n: int
    k: int

    @property
    def operations(self) -> int:
        """Floating-point operations, a multiply-add counting two."""
        return 2 * self.m * self.n * self.k

    @property
    def input_bytes(self) -> int:
        """Bytes of A and B."""
        return _ITEM_BYTES * (self.m * self.k + self.k * self.n)

    @property
    def output_bytes(self) -> int:
        """Bytes of C."""
        return _ITEM_BYTES * self.m * self.n

    @property
    def num_bytes(self) -> int:
        """Bytes of A, B and C, each touched once."""
        return self.input_bytes + self.output_bytes

    @property
    def intensity(self) -> float:
        """Operations per byte."""
        return self.operations / self.num_bytes

    @property
    def kind(self) -> str:
        """The class in which the shape is reported; the first that applies."""
        if min(self.m, self.n) == 1:
            return "vector"
        if self.operations < _SMALL_OPERATIONS:
            return "small"
        if self.k >= _LONG_K and self.m * self.n <= self.k:
            return "long-k"
        if min(self.m, self.n) <= _THIN:
            return "thin"
        return "compute-bound" if self.intensity >= _COMPUTE_INTENSITY else "memory-bound"


CLASSES = ("compute-bound", "memory-bound", "thin", "vector", "long-k", "small")


def _read(path: Path, source: str) -> list[Problem]:
    try:
        with path.open(newline="") as file:
            rows = list(csv.DictReader(file))
    except OSError as error:
        raise InputError(f"cannot read the shape list {path}: {error.strerror}") from error
    problems: dict[tuple[int, int, int], Problem] = {}
    for number, row in enumerate(rows, start=2):
        try:
            m, n, k = (int(row[axis]) for axis in ("m", "n", "k"))
        except (KeyError, TypeError, ValueError) as error:
            raise InputError(
                f"{path}, line {number}: expected integer columns m, n and k, got {dict(row)}"
            ) from error
        if min(m, n, k) < 1:
            raise InputError(f"{path}, line {number}: expected positive m, n, k, got {m}, {n}, {k}")
        problems.setdefault((m, n, k), Problem(row.get("family") or source, m, n, k))
    if not problems:
        raise InputError(f"{path} lists no shapes; expected a CSV with columns m, n and k")
    return list(problems.values())


def load(path: Path | None = None) -> list[Problem]:
    """Read the distinct shapes of a CSV with columns m, n, k; the two built-in lists by default.

    Raises
    ------
    InputError
        If the file cannot be read or a row holds no positive m, n, k.
    """
    if path is not None:
        return _read(path, path.stem)
    return [p for source, name in _LISTS.items() for p in _read(_FOLDER / name, source)]


def sample(problems: Iterable[Problem], size: int | None, seed: int) -> list[Problem]:
    """Draw `size` shapes, from every class in proportion to its share; all of them for None."""
    problems = list(problems)
    if size is None or size >= len(problems):
        return problems
    rng = random.Random(seed)
    by_class = [[p for p in problems if p.kind == kind] for kind in CLASSES]
    chosen: list[Problem] = []
    taken = seen = 0
    for group in by_class:
        seen += len(group)
        share = round(size * seen / len(problems)) - taken
        taken += share
        chosen += rng.sample(group, share)
    rng.shuffle(chosen)
    return chosen
