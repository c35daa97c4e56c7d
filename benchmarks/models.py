"""``moonpoly bench models``: whole models against ONNX Runtime, in values and in time."""

from __future__ import annotations

import contextlib
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from rich.console import Console

from moonpoly import config

from . import machine
from .contenders import DYNAMIC, MODEL_CONTENDERS
from .contest import Protocol, Timing, contend
from .model_files import MODELS, Model, Shape
from .peer import BenchmarkError, Peer, environment
from .report import check_writable, console, geomean, print_facts, table, track, write_json
from .tolerances import MODEL_REL

_OURS, _REFERENCE = MODEL_CONTENDERS
_PROTOCOL = Protocol(sample_us=40_000.0, rounds=5, budget_us=3_000_000.0)


@dataclass(frozen=True)
class Sample:
    """One model at one shape; times are not numbers where only values were compared.

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
        times = {}
        if self.ours_us == self.ours_us:
            times = {
                "us": round(self.ours_us, 2),
                "onnxruntime_us": round(self.reference_us, 2),
                "ratio": round(self.ratio, 4),
                "disturbed": self.disturbed,
            }
        return {"model": self.model, "shape": self.shape, "error": self.error, **times}


def _compile(model: Model, target: Path, threads: int) -> float:
    """Compile with the command line in a fresh process; return its seconds."""
    start = time.perf_counter()
    done = subprocess.run(
        [sys.executable, "-m", "moonpoly.cli", "compile", model.path(), "-o", target],
        capture_output=True,
        text=True,
        env=environment(threads),
        check=False,
    )
    if done.returncode != 0:
        last = (done.stderr.strip().splitlines() or ["no message"])[-1]
        raise BenchmarkError(f"compiling {model.name} ended with {done.returncode}: {last}")
    return time.perf_counter() - start


def _error(got: npt.NDArray[Any], want: npt.NDArray[Any]) -> float:
    """Largest difference relative to the largest magnitude wanted; infinite for another shape."""
    if got.shape != want.shape or got.dtype != want.dtype:
        return float("inf")
    if want.size == 0:
        return 0.0
    wide = want.astype(np.float64)
    scale = max(float(np.max(np.abs(wide))), float(np.finfo(np.float32).tiny))
    return float(np.max(np.abs(got.astype(np.float64) - wide))) / scale


def _compare(ours: Path, reference: Path) -> float:
    with np.load(ours) as got, np.load(reference) as want:
        if set(got.files) != set(want.files):
            raise BenchmarkError(f"outputs differ: got {got.files}, expected {want.files}")
        return max(_error(got[name], want[name]) for name in want.files)


def _measure(
    model: Model, shape: Shape, peers: Sequence[Peer], folder: Path, seed: int, check: bool
) -> Sample:
    inputs = folder / "inputs.npz"
    np.savez(inputs, allow_pickle=False, **model.inputs(shape, np.random.default_rng(seed)))
    outputs = {peer.name: folder / f"{peer.name}.npz" for peer in peers}
    sample_us = None if check else _PROTOCOL.sample_us
    replies = {
        peer.name: peer.ask(
            "prepare", inputs=str(inputs), outputs=str(outputs[peer.name]), sample_us=sample_us
        )
        for peer in peers
    }
    error = _compare(outputs[_OURS], outputs[_REFERENCE])
    if check:
        return Sample(model.name, shape, error, float("nan"), float("nan"))
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
        ratios = [sample.ratio for sample in chosen if sample.ratio == sample.ratio]
        title = f"{model.name} ({model.axes}), compiled in {compile_s[model.name]:.1f} s"
        if ratios:
            title += f", geomean {geomean(ratios):.3f}, worst {max(ratios):.3f}"
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


def _choose(names: Sequence[str]) -> list[Model]:
    known = {model.name: model for model in MODELS}
    for name in names:
        if name not in known:
            raise BenchmarkError(f"unknown model '{name}'; known: {', '.join(known)}")
    return [model for model in MODELS if not names or model.name in names]


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
        Compare values only.
    only
        Names of models to take; all by default.

    Returns
    -------
    dict
        ``geomean`` and ``worst`` of our time over ONNX Runtime's (absent with `check`),
        ``max_error`` and ``max_compile_s``.

    Raises
    ------
    BenchmarkError
        If a package is missing, or an output is off by more than ``tolerances.MODEL_REL``.
    """
    check_writable(json)
    threads = threads or config.num_threads()
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
        for index, model in enumerate(_choose(only)):
            compiled = folder / f"{index}.so"
            compile_s[model.name] = _compile(model, compiled, threads)
            for peer in peers:
                path = compiled if peer.name == _OURS else model.path()
                peer.ask("load", path=str(path))
            for shape in track(model.shapes, model.name, out):
                samples.append(_measure(model, shape, peers, folder, seed, check))
    _show(samples, compile_s, out)
    summary = _summarise(samples, compile_s, check)
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


def _summarise(
    samples: Sequence[Sample], compile_s: dict[str, float], check: bool
) -> dict[str, float]:
    summary: dict[str, float] = {}
    if not check:
        ratios = [sample.ratio for sample in samples]
        summary |= {"geomean": round(geomean(ratios), 4), "worst": round(max(ratios), 4)}
    summary["max_error"] = max(sample.error for sample in samples)
    summary["max_compile_s"] = round(max(compile_s.values()), 2)
    return summary
