"""Shows models: inputs and outputs, what was polymerized, and what was not and why."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from moonpoly import runtime
from moonpoly.cli.screen import console, facts, report_counts, step_bar, table
from moonpoly.error import Refusal, UnsupportedError
from moonpoly.runtime import TensorSpec
from moonpoly.runtime.dim_expr import spell

_B_LAYOUTS = {"packed": "B packed", "row": "B as rows", "transposed": "B as columns"}


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
                *_conditions(info.raw),
            ],
        )
    )
    _show_tensors(info.inputs, info.outputs)
    _show_report(info.raw)


def _conditions(metadata: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Return what a model asks of its dimensions, as rows of facts."""
    pairs, limits, least = (
        metadata.get("constraints", []),
        metadata.get("limits", {}),
        metadata.get("least", {}),
    )
    return [
        *(("equal", f"{spell(left)} = {spell(right)}") for left, right in pairs),
        *(("at most", f"{dim} = {most}") for dim, most in limits.items()),
        *(("at least", f"{dim} = {fewest}") for dim, fewest in least.items()),
        *(
            ("expected", f"{dim} = {low} to {high}")
            for dim, (low, high) in metadata.get("dim_hints", {}).items()
        ),
    ]


def show_onnx_model(
    path: Path, dims: Mapping[str, int], dim_hints: Mapping[str, tuple[int, int]]
) -> None:
    """Print what ``compile`` would do with an ONNX model, without building it.

    Parameters
    ----------
    dims
        Symbolic dimension → the only size that it is to have.
    dim_hints
        Symbolic dimension → the sizes that are expected.

    Raises
    ------
    UnsupportedError
        If it can't be compiled, after the inputs, the outputs and each operator that stands in the
        way are printed.
    """
    from moonpoly import compiler

    with step_bar(path.name) as steps:
        try:
            metadata = compiler.describe(path, None, dims, dim_hints, steps)
        except UnsupportedError as err:
            if err.refusals:
                _show_refusals(path, err.refusals)
            raise
    if rows := _conditions(metadata):
        console.print(facts(rows))
    inputs, outputs = (
        [TensorSpec(item["name"], item["dtype"], tuple(item["shape"])) for item in metadata[key]]
        for key in ("inputs", "outputs")
    )
    _show_tensors(inputs, outputs)
    _show_report(metadata)
    console.print(f"looked at in {steps}")


def _show_refusals(path: Path, refusals: Sequence[Refusal]) -> None:
    from moonpoly.compiler.frontend import read_ends

    inputs, outputs = (
        [TensorSpec(each.name, each.dtype, each.shape) for each in specs]
        for specs in read_ends(path)
    )
    _show_tensors(inputs, outputs)
    console.print(
        table(
            ("operator", "node", "why it can't be compiled"),
            ((each.op, each.node, each.reason or "unknown operator") for each in refusals),
        )
    )


def _show_tensors(inputs: Iterable[TensorSpec], outputs: Iterable[TensorSpec]) -> None:
    rows = [("input", spec) for spec in inputs] + [("output", spec) for spec in outputs]
    console.print(
        table(
            ("", "name", "dtype", "shape"),
            ((kind, spec.name, spec.dtype, _shape(spec)) for kind, spec in rows),
        )
    )


def _shape(spec: TensorSpec) -> str:
    return f"[{', '.join(map(str, spec.shape))}]"


def _show_report(metadata: Mapping[str, Any]) -> None:
    # The compiler reports a polymerized operator when it makes its call site.
    sites = iter(metadata["sites"])
    console.print(
        table(
            ("operator", "node", "status", "how, or why not"),
            (
                (
                    item["op"],
                    item["node"],
                    item["status"],
                    _how(next(sites)) if item["status"] == "polymerized" else item["reason"],
                )
                for item in metadata["report"]
            ),
            title=report_counts(metadata),
        )
    )


def _how(site: Mapping[str, Any]) -> str:
    if site["op"] == "matmul":
        parts = [_B_LAYOUTS[site["b"]]]
    else:
        groups = site["groups"]
        parts = ["implicit GEMM"] + ([f"{groups} groups"] if groups > 1 else [])
    if epilogue := site["epilogue"]:
        kinds = [operand["kind"] for operand in epilogue["operands"]]
        parts.append(f"epilogue({', '.join(kinds)})")
    return ", ".join(parts)
