"""Shows models: inputs and outputs, what was polymerized, and what was not and why."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from moonpoly import runtime
from moonpoly.cli.screen import console, dims, facts, report_counts, table
from moonpoly.runtime import TensorSpec


def show_compiled_model(path: Path) -> None:
    """Print what a compiled model says of itself."""
    info = runtime.read_metadata(path)
    console.print(
        facts(
            [
                ("model", info.name),
                ("target", f"{info.target} ({' '.join(info.features)})"),
                ("made by", f"moonpoly {info.raw['moonpoly']}, tvm {info.raw['tvm']}"),
                ("digest", info.digest),
                ("symbols", ", ".join(info.symbols) or "none"),
                *(("equal", f"{left} = {right}") for left, right in info.constraints),
            ],
        )
    )
    _show_tensors(info.inputs, info.outputs)
    _show_report(info.raw)


def show_onnx_model(path: Path) -> None:
    """Print what ``compile`` would do with an ONNX model, without building it."""
    from moonpoly import compiler

    metadata = compiler.describe(path)
    inputs, outputs = (
        [TensorSpec(item["name"], item["dtype"], tuple(item["shape"])) for item in metadata[key]]
        for key in ("inputs", "outputs")
    )
    _show_tensors(inputs, outputs)
    _show_report(metadata)


def _show_tensors(inputs: Iterable[TensorSpec], outputs: Iterable[TensorSpec]) -> None:
    rows = [("input", spec.name, spec.dtype, dims(spec.shape)) for spec in inputs]
    rows += [("output", spec.name, spec.dtype, dims(spec.shape)) for spec in outputs]
    console.print(table(("", "name", "dtype", "shape"), rows))


def _show_report(metadata: Mapping[str, Any]) -> None:
    console.print(
        table(
            ("operator", "node", "status", "reason"),
            (
                (item["op"], item["node"], item["status"], item.get("reason") or "")
                for item in metadata["report"]
            ),
            title=report_counts(metadata),
        )
    )
