"""Shows an artifact: its target, micro-kernels and machine terms."""

from __future__ import annotations

from pathlib import Path

from moonpoly.cli.screen import console, facts, table
from moonpoly.target import Target
from moonpoly.workload import Workload


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
    console.print(
        table(
            ("micro-kernel", "family", "tile>"),
            (
                (kernel["name"], kernel["family"], f"{kernel['um']}x{kernel['un']}")
                for kernel in manifest["kernels"]
            ),
            title=f"{len(manifest['kernels'])} micro-kernels",
        )
    )
