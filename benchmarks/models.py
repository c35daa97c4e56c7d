"""``moonpoly bench models``: whole models against ONNX Runtime, in values and in time."""

from __future__ import annotations

import contextlib
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console

from moonpoly import config
from moonpoly.model_registry import MODELS, TIMED, Model, Shape

from . import machine, model_check
from .contenders import DYNAMIC, MODEL_CONTENDERS
from .contest import Protocol, Timing, contend
from .model_outputs import compare, compile_model
from .peer import BenchmarkError, Peer
from .report import check_writable, console, geomean, print_facts, table, track, write_json
from .tolerances import MODEL_REL

_OURS, _REFERENCE = MODEL_CONTENDERS


_PROTOCOL = Protocol(sample_us=40_000.0, rounds=5, budget_us=3_000_000.0)


@dataclass(frozen=True)
class Sample:
    """One model at one shape.

    Attributes
    ----------
    disturbed
        Turns repeated because other programs took the cores.
    """

    model: str
    shape: Shape
    error: float
    ours_us: float
    reference_us: float
    disturbed: int = 0

    @property
    def ratio(self) -> float:
        """Our time over ONNX Runtime's: below 1, ours is faster."""
        return self.ours_us / self.reference_us

    def as_json(self) -> dict[str, Any]:
        """Plain values."""
        return {
            "model": self.model,
            "shape": self.shape,
            "error": self.error,
            "us": round(self.ours_us, 2),
            "onnxruntime_us": round(self.reference_us, 2),
            "ratio": round(self.ratio, 4),
            "disturbed": self.disturbed,
        }


def _measure(model: Model, shape: Shape, peers: Sequence[Peer], folder: Path, seed: int) -> Sample:
    inputs = folder / "inputs.npz"
    np.savez(inputs, allow_pickle=False, **model.inputs(shape, np.random.default_rng(seed)))
    outputs = {peer.name: folder / f"{peer.name}.npz" for peer in peers}
    replies = {
        peer.name: peer.ask(
            "prepare",
            inputs=str(inputs),
            outputs=str(outputs[peer.name]),
            sample_us=_PROTOCOL.sample_us,
        )
        for peer in peers
    }
    error = compare(outputs[_OURS], outputs[_REFERENCE]).error
    timings, disturbed = contend(replies, peers, _PROTOCOL)
    ours, reference = (_us(timings[name]) for name in (_OURS, _REFERENCE))
    return Sample(model.name, shape, error, ours, reference, disturbed)


def _us(ways: dict[str, Timing]) -> float:
    return min(timing.us for timing in ways.values() if DYNAMIC in timing.modes)


def _show(samples: Sequence[Sample], compile_s: dict[str, float], out: Console) -> None:
    for model in MODELS:
        chosen = [sample for sample in samples if sample.model == model.name]
        if not chosen:
            continue
        ratios = [sample.ratio for sample in chosen]
        axes = ", ".join(axis.name for axis in model.axes)
        title = (
            f"{model.name} ({axes}), compiled in {compile_s[model.name]:.1f} s, "
            f"geomean {geomean(ratios):.3f}, worst {max(ratios):.3f}"
        )
        rows = [
            (
                " x ".join(map(str, s.shape)),
                s.error,
                s.ours_us / 1e3,
                s.reference_us / 1e3,
                s.ratio,
            )
            for s in chosen
        ]
        out.print(
            table(title, ["shape", "error", "ours ms", "ONNX Runtime ms", "ours / ORT"], rows)
        )


def _choose(names: Sequence[str], default: Sequence[Model]) -> list[Model]:
    known = {model.name: model for model in MODELS}
    for name in names:
        if name not in known:
            raise BenchmarkError(f"unknown model '{name}'; known: {', '.join(known)}")
    return [model for model in MODELS if model.name in names] if names else list(default)


def main(
    *,
    seed: int = 0,
    threads: int | None = None,
    json: Path | None = None,
    check: bool = False,
    only: Sequence[str] = (),
) -> dict[str, Any]:
    """Compile each model, compare its outputs and its time with ONNX Runtime's at every shape.

    Parameters
    ----------
    check
        Check the values of all models of the registry, each in processes of its own, see
        `moonpoly.benchmarks.model_check`.
    only
        Names of models to take; by default those that are timed, or all with `check`.

    Returns
    -------
    dict
        ``geomean`` and ``worst`` of our time over ONNX Runtime's, ``max_error`` and
        ``max_compile_s``; with `check`, as `moonpoly.benchmarks.model_check.main` says.

    Raises
    ------
    BenchmarkError
        If a package is missing, or an output is off by more than ``tolerances.MODEL_REL``.
    """
    check_writable(json)
    threads = threads or config.num_threads()
    if check:
        return model_check.main(_choose(only, MODELS), seed=seed, threads=threads, json=json)
    out = console()
    facts = machine.facts(threads)
    print_facts("machine", facts, out)
    samples: list[Sample] = []
    compile_s: dict[str, float] = {}
    with contextlib.ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="moonpoly-bench-")))
        peers = [
            stack.enter_context(Peer(name, threads, "moonpoly.benchmarks.model_worker"))
            for name in MODEL_CONTENDERS
        ]
        for peer in peers:
            print_facts(peer.name, peer.facts, out)
        for index, model in enumerate(_choose(only, TIMED)):
            compiled = folder / f"{index}.so"
            compile_s[model.name] = compile_model(model.name, model.path(), compiled, threads)
            for peer in peers:
                path = compiled if peer.name == _OURS else model.path()
                peer.ask("load", path=str(path))
            for shape in track(model.shapes, model.name, out):
                samples.append(_measure(model, shape, peers, folder, seed))
    _show(samples, compile_s, out)
    ratios = [sample.ratio for sample in samples]
    summary = {
        "geomean": round(geomean(ratios), 4),
        "worst": round(max(ratios), 4),
        "max_error": max(sample.error for sample in samples),
        "max_compile_s": round(max(compile_s.values()), 2),
    }
    for key, value in summary.items():
        out.print(f"[bold]{key} {value:.4g}[/]")
    if disturbed := sum(sample.disturbed for sample in samples):
        out.print(f"{disturbed} turns repeated because other programs took the cores")
    write_json(json, summary, [s.as_json() for s in samples], machine=facts, compile_s=compile_s)
    wrong = [s for s in samples if not s.error <= MODEL_REL]
    if wrong:
        s = wrong[0]
        raise BenchmarkError(
            f"{len(wrong)} of {len(samples)} outputs are off; first {s.model} at {s.shape}: "
            f"error {s.error:.1e}, at most {MODEL_REL:.0e} expected"
        )
    return summary
