"""The picture of ``bench gemm --target … --plot``: the roofline, and the ratios over it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ..plot import POINTS, add_intensity_axis, new_figure, save_figure
from ..shape_lists import Problem
from .report import CLASSES, Ceiling, kind


def plot_results(samples: Sequence[Mapping[str, Any]], ceiling: Ceiling, path: Path) -> None:
    """Draw TFLOP/s and cuBLAS µs / our µs over operations per byte, a colour per class.

    Parameters
    ----------
    samples
        As a benchmark's JSON holds them: ``m``, ``n``, ``k``, ``pdl``, ``cublas``.

    Raises
    ------
    BenchmarkError
        If matplotlib is not installed.
    StorageError
        If the file cannot be written.
    """
    figure = new_figure()
    left, right = figure.subplots(1, 2)
    by_class: dict[str, list[tuple[float, float, float]]] = {name: [] for name in CLASSES}
    for sample in samples:
        problem = Problem("", sample["m"], sample["n"], sample["k"])
        intensity = problem.operations / ceiling.num_bytes(problem)
        by_class[kind(problem, ceiling)].append(
            (intensity, problem.operations / sample["pdl"] / 1e6, sample["cublas"] / sample["pdl"])
        )
    for name, points in by_class.items():
        if not points:
            continue
        x, speed, ratio = zip(*points, strict=True)
        left.scatter(x, speed, label=f"{name} ({len(points)})", **POINTS)
        right.scatter(x, ratio, **POINTS)
    ends = [0.5, ceiling.balance, 4000.0]
    roof = [min(ceiling.tflops, at * ceiling.gbs / 1e3) for at in ends]
    left.plot(ends, roof, color="black", linewidth=0.8)
    left.set_ylabel("TFLOP/s, operands in the cache where they fit")
    right.axhline(1.0, color="black", linewidth=0.8)
    right.set_ylabel("cuBLAS µs / MoonPoly µs")
    for panel in (left, right):
        add_intensity_axis(panel)
    left.legend(fontsize=8)
    save_figure(figure, path)
