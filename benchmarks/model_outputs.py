"""Compiling a model in a process of its own, and comparing what two contenders made of it."""

from __future__ import annotations

import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from .peer import BenchmarkError, environment

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
    top1_gap
        By how much, relative to the output's largest magnitude, the reference's entry at the place
        of our largest one along the last axis is below its own largest; 0 where the places agree.
    """

    error: float
    top1_gap: float


def compare(ours: Path, reference: Path) -> Difference:
    """Compare the outputs in two .npz files.

    Raises
    ------
    BenchmarkError
        If they hold different names.
    """
    with np.load(ours) as got, np.load(reference) as want:
        if set(got.files) != set(want.files):
            raise BenchmarkError(f"outputs differ: got {got.files}, expected {want.files}")
        errors = [output_error(got[name], want[name]) for name in want.files]
        # NaN is larger than anything here: `max` would drop it.
        worst = float("nan") if any(e != e for e in errors) else max(errors, default=0.0)
        gaps = [top1_gap(got[name], want[name]) for name in want.files]
        return Difference(worst, max(gaps, default=0.0))


def top1_gap(got: npt.NDArray[Any], want: npt.NDArray[Any]) -> float:
    """How far from the largest is what was taken for the largest, see `Difference`."""
    if got.shape != want.shape:
        return float("inf")
    if want.ndim == 0 or want.size == 0:
        return 0.0
    ours, wide = np.argmax(got, axis=-1), want.astype(np.float64)
    chosen = np.take_along_axis(wide, ours[..., None], axis=-1)[..., 0]
    scale = max(float(np.max(np.abs(wide))), float(np.finfo(np.float32).tiny))
    return float(np.max(np.max(wide, axis=-1) - chosen)) / scale
