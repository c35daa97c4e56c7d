"""Compiling a model in a process of its own, and comparing what two contenders made of it."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from .peer import BenchmarkError, environment

# Vectors in rows.
Vectors = npt.NDArray[Any]
# A model that takes longer to compile is stuck.
_COMPILE_LIMIT_S = 900


def compile_model(name: str, source: Path, target: Path, threads: int) -> float:
    """Compile with the command line in a fresh process; return its seconds.

    Raises
    ------
    BenchmarkError
        If it fails or is stuck; the message ends with the compiler's own.
    """
    start = time.perf_counter()
    try:
        done = subprocess.run(
            [sys.executable, "-m", "moonpoly.cli", "compile", source, "-o", target],
            capture_output=True,
            text=True,
            env=environment(threads),
            timeout=_COMPILE_LIMIT_S,
            check=False,
        )
    except subprocess.TimeoutExpired as err:
        raise BenchmarkError(f"compiling {name} took more than {_COMPILE_LIMIT_S} s") from err
    if done.returncode != 0:
        last = (done.stderr.strip().splitlines() or ["no message"])[-1]
        raise BenchmarkError(f"compiling {name} ended with {done.returncode}: {last}")
    return time.perf_counter() - start


def output_error(got: npt.NDArray[Any], want: npt.NDArray[Any]) -> float:
    """Largest difference relative to the largest magnitude wanted; infinite for another shape.

    Not a number where one of the two has such a value and the other has not.
    """
    if got.shape != want.shape or got.dtype != want.dtype:
        return float("inf")
    if want.size == 0:
        return 0.0
    wide, ours = want.astype(np.float64), got.astype(np.float64)
    finite = np.isfinite(wide) & np.isfinite(ours)
    if not np.array_equal(wide[~finite], ours[~finite], equal_nan=True):
        return float("nan")
    if not finite.any():
        return 0.0
    scale = max(float(np.max(np.abs(wide[finite]))), float(np.finfo(np.float32).tiny))
    return float(np.max(np.abs(ours[finite] - wide[finite]))) / scale


@dataclass(frozen=True)
class Difference:
    """How the outputs of two contenders differ.

    Attributes
    ----------
    error
        The largest error of an output, see `output_error`.
    answer_gap
        By how much the reference prefers its own answer to ours; 0 where the two agree. The answer
        is the place of the largest entry (`top1_gap`) or the most similar vector
        (`most_similar_gap`).
    turn
        One minus the cosine between our vector and the reference's, where the model embeds.
    """

    error: float
    answer_gap: float
    turn: float = 0.0

    @staticmethod
    def worst(of: Iterable[Difference]) -> Difference:
        """The largest of each; not a number where one isn't."""
        each = list(of)
        return Difference(
            _largest(d.error for d in each),
            _largest(d.answer_gap for d in each),
            _largest(d.turn for d in each),
        )


def _largest(values: Iterable[float]) -> float:
    """As `max` does, but NaN is larger than anything, and it is 0 where there is no value."""
    listed = list(values)
    return float("nan") if any(v != v for v in listed) else max(listed, default=0.0)


def compare(
    ours: Path, reference: Path, embedding: str = "", others: Sequence[Vectors] = ()
) -> Difference:
    """Compare the outputs in two .npz files.

    Parameters
    ----------
    embedding
        The output whose vectors are compared by their angles, if any.
    others
        The reference's vectors of other inputs, (rows, length) each.

    Raises
    ------
    BenchmarkError
        If they hold different names.
    """
    with np.load(ours) as got, np.load(reference) as want:
        if set(got.files) != set(want.files):
            raise BenchmarkError(f"outputs differ: got {got.files}, expected {want.files}")
        error = _largest(output_error(got[name], want[name]) for name in want.files)
        if not embedding:
            return Difference(error, _largest(top1_gap(got[n], want[n]) for n in want.files))
        left, right = got[embedding], want[embedding]
        if left.shape != right.shape:
            return Difference(error, float("inf"), float("inf"))
        cosines = np.sum(_directions(left) * _directions(right), axis=1)
        return Difference(
            error, most_similar_gap(left, right, others), _largest(map(float, 1.0 - cosines))
        )


def _directions(vectors: Vectors) -> npt.NDArray[np.float64]:
    wide = vectors.astype(np.float64)
    return wide / np.maximum(np.linalg.norm(wide, axis=1, keepdims=True), np.finfo(float).tiny)


def most_similar_gap(got: Vectors, want: Vectors, others: Sequence[Vectors] = ()) -> float:
    """How much less similar than the most similar vector is the one that was taken for it.

    For each row, the most similar by the cosine is searched among the other rows of `want` and
    `others`, once by our vector of the row and once by the reference's.

    Parameters
    ----------
    got, want
        Vectors in rows, of the same shape.

    Returns
    -------
    float
        The largest difference of the reference's two cosines; 0 where the same one is found.
    """
    pool = _directions(np.concatenate([want, *others]))
    ours, theirs = (_directions(rows) @ pool.T for rows in (got, want))
    itself = np.eye(len(want), len(pool), dtype=bool)
    if itself.all() or not len(want):
        return 0.0
    ours[itself] = theirs[itself] = -np.inf
    chosen = np.take_along_axis(theirs, np.argmax(ours, axis=1)[:, None], axis=1)[:, 0]
    return float(np.max(np.max(theirs, axis=1) - chosen))


def top1_gap(got: npt.NDArray[Any], want: npt.NDArray[Any]) -> float:
    """How far from the largest is what was taken for the largest, see `Difference`.

    Relative to the output's largest magnitude, along the last axis.
    """
    if got.shape != want.shape:
        return float("inf")
    if want.ndim == 0 or want.size == 0:
        return 0.0
    ours, wide = np.argmax(got, axis=-1), want.astype(np.float64)
    chosen = np.take_along_axis(wide, ours[..., None], axis=-1)[..., 0]
    scale = max(float(np.max(np.abs(wide))), float(np.finfo(np.float32).tiny))
    return float(np.max(np.max(wide, axis=-1) - chosen)) / scale
