"""The picture of ``moonpoly bench gemm --plot``: ratio over arithmetic intensity."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from moonpoly import config

from .contenders import MODES
from .contest import Result
from .gemm_report import ratios
from .peer import EXTRA, BenchmarkError
from .shape_lists import CLASSES

# Of the points of every picture.
POINTS: dict[str, Any] = {"s": 9, "alpha": 0.6, "linewidths": 0}


def new_figure() -> Any:
    """Return an empty figure for two panels.

    Raises
    ------
    BenchmarkError
        If matplotlib is not installed.
    """
    try:
        from matplotlib.figure import Figure
    except ImportError as error:
        raise BenchmarkError(
            f"--plot needs matplotlib, which is not installed; run: {EXTRA}"
        ) from error
    return Figure(figsize=(11, 4.5), layout="constrained")


def add_intensity_axis(panel: Any) -> None:
    """Give a panel logarithmic axes over operations per byte."""
    panel.set_xscale("log")
    panel.set_yscale("log")
    panel.set_xlabel("operations per byte")
    panel.grid(True, which="both", alpha=0.2)


def save_figure(figure: Any, path: Path) -> None:
    """Write a figure; raises :class:`StorageError` if the file can't be written."""
    with config.atomic_file(path) as temporary:
        figure.savefig(temporary, dpi=140)


def plot_ratios(results: Sequence[Result], path: Path) -> None:
    """Draw best peer µs / our µs over operations per byte, a panel per mode, a colour per class.

    Raises
    ------
    BenchmarkError
        If matplotlib is not installed.
    StorageError
        If the file cannot be written.
    """
    figure = new_figure()
    panels = figure.subplots(1, len(MODES), sharey=True)
    for panel, mode in zip(panels, MODES, strict=True):
        found = ratios(results, (mode,))
        for kind in CLASSES:
            chosen = [x for x in found if x.result.problem.kind == kind]
            panel.scatter(
                [x.result.problem.intensity for x in chosen],
                [x.value for x in chosen],
                label=f"{kind} ({len(chosen)})",
                **POINTS,
            )
        panel.axhline(1.0, color="black", linewidth=0.8)
        add_intensity_axis(panel)
        panel.set_title(f"{mode} B")
    panels[0].set_ylabel("best peer µs / MoonPoly µs")
    panels[-1].legend(fontsize=8)
    save_figure(figure, path)
