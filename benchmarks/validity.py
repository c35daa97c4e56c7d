"""``moonpoly bench validity``: is every shape valid, against float64?

The first sweep is the one on which DietCode, the compiler that introduced micro-kernels for dynamic
shapes, finds a valid program for 254 shapes of 8,192.
"""

from __future__ import annotations

import json as json_format
import random
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from moonpoly import config

from . import machine
from .our_kernels import B_MODES, Kernels, load_kernels, prepare_b
from .report import check_writable, console, print_facts, table, track, write_json
from .tolerances import OPERATOR_REL

Matrix = npt.NDArray[np.float32]

_SWEEP = range(1, 8_193)
_SWEEP_N, _SWEEP_K = 3_072, 768
_RANDOM = 2_000
_RANDOM_LARGEST = 4_096
_RANDOM_OPERATIONS = 1 << 31
_GUARD = 1_024  # floats before and after each operand
_GUARD_VALUE = np.float32(-123.25)
_ROWS_AT_ONCE = 128


@dataclass(frozen=True)
class Verdict:
    """What became of one shape over all modes of B."""

    sweep: str
    m: int
    n: int
    k: int
    valid: bool
    error: float
    reason: str = ""


def _is_prime(value: int) -> bool:
    return value > 1 and all(value % d for d in range(2, int(value**0.5) + 1))


def _random_extent(rng: random.Random) -> int:
    extent = round(_RANDOM_LARGEST ** rng.random())
    kind = rng.random()
    if kind < 0.15:
        return 1
    while kind < 0.6 and not _is_prime(extent):
        extent += 1
    return extent


def random_shapes(seed: int) -> list[tuple[int, int, int]]:
    """Distinct shapes: 15 % ones, 45 % primes and 40 % anything on each axis."""
    rng = random.Random(seed)
    shapes: dict[tuple[int, int, int], None] = {}
    while len(shapes) < _RANDOM:
        m, n, k = (_random_extent(rng) for _ in range(3))
        if 2 * m * n * k <= _RANDOM_OPERATIONS:
            shapes[m, n, k] = None
    return list(shapes)


class Guarded:
    """A matrix with known values before and after it, to show writes outside it."""

    def __init__(self, rows: int, columns: int) -> None:
        self._all = np.full(rows * columns + 2 * _GUARD, _GUARD_VALUE, np.float32)
        self.matrix: Matrix = self._all[_GUARD:-_GUARD].reshape(rows, columns)

    def intact(self) -> bool:
        """Whether nothing outside the matrix was written."""
        edges = (self._all[:_GUARD], self._all[-_GUARD:])
        return all(bool((edge == _GUARD_VALUE).all()) for edge in edges)


def _largest_error(got: Matrix, exact: npt.NDArray[Any], size: npt.NDArray[Any]) -> float:
    """Largest |got - exact| / size, block by block so that the blocks stay in cache."""
    worst = 0.0
    for row in range(0, got.shape[0], _ROWS_AT_ONCE):
        block = slice(row, row + _ROWS_AT_ONCE)
        error = float(np.max(np.abs(got[block] - exact[block]) / size[block]))
        worst = float(np.maximum(worst, error))  # which keeps what is not a number
    return worst


class _Case:
    """Operands and the float64 result for (rows, n, k), of which leading rows are products too."""

    def __init__(self, kernels: Kernels, rows: int, n: int, k: int, seed: int) -> None:
        import tvm_ffi

        rng = np.random.default_rng(seed)
        self._kernels = kernels
        guarded_a = Guarded(rows, k)
        self._a = guarded_a.matrix
        self._a[:] = rng.uniform(-1.0, 1.0, (rows, k))
        b = rng.uniform(-1.0, 1.0, (k, n)).astype(np.float32)
        a64, b64 = self._a.astype(np.float64), b.astype(np.float64)
        self._exact = a64 @ b64
        # Exact zeros on both sides agree; the least normal number keeps them from dividing by zero.
        self._size = np.maximum(np.abs(a64) @ np.abs(b64), np.finfo(np.float32).tiny)
        self._b = {mode: prepare_b(kernels, b, number) for mode, number in B_MODES.items()}
        self._tensor = tvm_ffi.from_dlpack

    def verdict(self, sweep: str, m: int) -> Verdict:
        """Run the leading `m` rows in every mode of B and compare."""
        from moonpoly import _ffi_api

        (_, k), n = self._a.shape, self._exact.shape[1]
        worst = 0.0
        for mode, number in B_MODES.items():
            guarded = Guarded(m, n)
            c = guarded.matrix
            c.fill(np.nan)
            try:
                _ffi_api.gemm(
                    self._kernels.handle,
                    self._tensor(self._a[:m]),
                    self._b[mode],
                    self._tensor(c),
                    number,
                    False,
                )
            except (RuntimeError, ValueError) as error:
                return Verdict(sweep, m, n, k, False, float("nan"), f"{mode}: refused: {error}")
            if not guarded.intact():
                return Verdict(sweep, m, n, k, False, float("nan"), f"{mode}: wrote outside C")
            largest = _largest_error(c, self._exact[:m], self._size[:m])
            if not largest <= OPERATOR_REL:
                return Verdict(sweep, m, n, k, False, largest, f"{mode}: error {largest:.1e}")
            worst = max(worst, largest)
        return Verdict(sweep, m, n, k, True, worst)


class _Progress:
    """Verdicts on disk, so that an interrupted run goes on where it was."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self.done: list[Verdict] = []
        if path.exists():
            for line in path.read_text().splitlines():
                try:
                    self.done.append(Verdict(**json_format.loads(line)))
                except (ValueError, TypeError):
                    break  # the line that the interruption cut

    def __enter__(self) -> _Progress:
        self._path.parent.mkdir(parents=True, exist_ok=True)
        text = "".join(json_format.dumps(asdict(verdict)) + "\n" for verdict in self.done)
        self._path.write_text(text)
        self._file = self._path.open("a")
        return self

    def add(self, verdict: Verdict) -> None:
        self.done.append(verdict)
        self._file.write(json_format.dumps(asdict(verdict)) + "\n")
        self._file.flush()

    def __exit__(self, kind: object, value: object, trace: object) -> None:
        self._file.close()
        if kind is None:
            self._path.unlink()


def _draw(sample: int | None, seed: int) -> tuple[list[int], list[tuple[int, int, int]]]:
    rows, shapes = list(_SWEEP), random_shapes(seed)
    if sample is None or sample >= len(rows) + len(shapes):
        return rows, shapes
    rng = random.Random(seed)
    from_sweep = round(sample * len(rows) / (len(rows) + len(shapes)))
    return sorted(rng.sample(rows, from_sweep)), rng.sample(shapes, sample - from_sweep)


def _verdicts(
    kernels: Kernels, rows: Sequence[int], shapes: Iterable[tuple[int, int, int]], seed: int
) -> Iterable[Verdict]:
    if rows:
        sweep = _Case(kernels, max(rows), _SWEEP_N, _SWEEP_K, seed)
        for m in rows:
            yield sweep.verdict("sweep", m)
    for m, n, k in shapes:
        yield _Case(kernels, m, n, k, seed).verdict("random", m)


def main(
    *,
    sample: int | None = None,
    seed: int = 0,
    threads: int | None = None,
    json: Path | None = None,
) -> dict[str, Any]:
    """Run (τ, 3072, 768) for τ = 1…8192 and 2,000 random shapes in every mode of B.

    A shape is valid if no mode refuses it, every entry is within ``tolerances.OPERATOR_REL`` of
    float64 relative to |A|·|B|, every entry was written and nothing outside C was.

    Returns
    -------
    dict
        ``valid`` and ``total``.
    """
    check_writable(json)
    threads = threads or config.num_threads()
    out = console()
    facts = machine.facts(threads)
    print_facts("machine", facts, out)
    kernels = load_kernels(threads)
    print_facts("moonpoly", kernels.describe(), out)
    rows, shapes = _draw(sample, seed)
    name = f"validity-{kernels.manifest['digest'][:12]}-{threads}-{seed}-{sample or 'all'}.jsonl"
    with _Progress(config.cache_dir() / "benchmarks" / name) as progress:
        seen = {(v.m, v.n, v.k) for v in progress.done}
        left_rows = [m for m in rows if (m, _SWEEP_N, _SWEEP_K) not in seen]
        left = [s for s in shapes if s not in seen]
        if seen:
            out.print(f"going on after {len(seen)} shapes of an interrupted run")
        verdicts = iter(_verdicts(kernels, left_rows, left, seed))
        for _ in track([*left_rows, *left], "shapes", out):
            progress.add(next(verdicts))
        verdicts_all = progress.done
    valid = sum(v.valid for v in verdicts_all)
    summary = {"valid": valid, "total": len(verdicts_all)}
    table_rows: list[tuple[object, ...]] = []
    for sweep in ("sweep", "random"):
        group = [v for v in verdicts_all if v.sweep == sweep]
        worst = max((v.error for v in group if v.valid), default=float("nan"))
        table_rows.append((sweep, sum(v.valid for v in group), len(group), worst))
    out.print(table("valid shapes", ["set", "valid", "total", "largest error"], table_rows))
    for v in [v for v in verdicts_all if not v.valid][:10]:
        out.print(f"invalid: {v.m}x{v.n}x{v.k}: {v.reason}")
    out.print(f"[bold]{valid} of {len(verdicts_all)} valid[/]")
    write_json(json, summary, [asdict(v) for v in verdicts_all], machine=facts)
    return summary
