"""Shows an artifact: its target, micro-kernels and machine terms."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from moonpoly.cli.screen import console, facts, table
from moonpoly.target import Target
from moonpoly.workload import Workload

# The order in which a cost table is laid out.
_AXES = ("k", "m_tiles", "n_tiles")


def show_artifact(folder: Path | None, *, target: str) -> None:
    """Print the manifest of ``folder``, or of the artifact that ``target`` uses."""
    from moonpoly import autotune

    if folder is None:
        artifact = autotune.load_artifact(Target.parse(target), Workload())
    else:
        artifact = autotune.read_artifact(folder)
    manifest = artifact.manifest
    console.print(
        facts(
            [
                ("folder", artifact.path),
                ("workload", f"{manifest['op']} {manifest['dtype']}"),
                ("target", manifest["target"]["name"]),
                ("features", " ".join(manifest["target"]["features"])),
                ("made by", f"moonpoly {manifest['moonpoly']}, tvm {manifest['tvm']}"),
                ("digest", manifest["digest"]),
                *((key, value) for key, value in manifest.get("machine", {}).items()),
            ],
        )
    )
    grid = manifest["grid"]
    # The middle of the grid: nothing is special about it, but it is the same for every kernel.
    at = tuple(len(grid[axis]) // 2 for axis in _AXES)
    k, m_tiles, n_tiles = (grid[axis][index] for axis, index in zip(_AXES, at, strict=True))
    console.print(
        table(
            (
                "micro-kernel",
                "family",
                "tile>",
                "packed µs>",
                "GFLOP/s>",
                "strided µs>",
                "GFLOP/s>",
            ),
            (
                (
                    kernel["name"],
                    kernel["family"],
                    f"{kernel['um']}x{kernel['un']}",
                    *_costs(kernel, grid, at, "packed"),
                    *_costs(kernel, grid, at, "strided"),
                )
                for kernel in manifest["kernels"]
            ),
            title=(
                f"{len(manifest['kernels'])} micro-kernels; a task at k = {k}, "
                f"{m_tiles}x{n_tiles} tiles in a call"
            ),
        )
    )


def _costs(
    kernel: Mapping[str, Any], grid: Mapping[str, Any], at: tuple[int, ...], layout: str
) -> tuple[str, str]:
    index = 0
    for axis, position in zip(_AXES, at, strict=True):
        index = index * len(grid[axis]) + position
    task_us = kernel["cost"][layout][index]
    flops = 2 * kernel["um"] * kernel["un"] * grid["k"][at[0]]
    return f"{task_us:.3f}", f"{flops / task_us / 1e3:.0f}"
