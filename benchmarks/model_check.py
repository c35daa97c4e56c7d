"""``moonpoly bench models --check``: does every real model compile and give the right values?

A model is compiled by the command line and run by workers of its own, so that one that can't be
had, is refused or crashes is a row of the table and not the end of the run.
"""

from __future__ import annotations

import contextlib
import math
import resource
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from rich.console import Console

from moonpoly.error import MoonPolyError
from moonpoly.model_registry import Model, Shape

from . import machine
from .contenders import DYNAMIC, MODEL_CONTENDERS, MODEL_REFERENCE
from .contest import Protocol, contend
from .model_outputs import Difference, compare, compile_model
from .peer import BenchmarkError, Peer
from .report import console, geomean, number, print_facts, table, track, write_json
from .tolerances import MODEL_REL

_OURS, _PEER = MODEL_CONTENDERS
# Short: the ratio is to show what is absurd, not what is 5 % off. The fastest sample counts, which
# is what a model can do even where other programs take a core now and then.
_PROTOCOL = Protocol(sample_us=5_000.0, rounds=5, budget_us=300_000.0)
# A worker that takes longer to answer hangs; loading and the first run of a large model included.
_ANSWER_LIMIT_S = 120.0
# Inputs for each shape of a model of 8-bit integers, of which ONNX Runtime's spread is taken. What
# lies between two integers falls to one or the other by the last bit of a sum, and what comes of
# that is as large as the step of the quantisation; most inputs have no such value.
_SPREAD_DRAWS = 24
# Times ONNX Runtime's time beyond which a model is marked.
ABSURD_RATIO = 5.0


@dataclass
class Row:
    """What became of one model.

    Attributes
    ----------
    nodes
        Nodes of its graph; 0 where there is no file.
    compile_s, compile_cpu_s
        Seconds of the compilation, and of the processor in it, which don't depend on what else
        runs; not a number where it failed.
    differences
        Shape → how the outputs differ from the reference.
    spreads
        Shape → how far ONNX Runtime's two optimisation levels are apart, which is what the model
        makes of the order of sums.
    ratios
        Shape → our time over optimised ONNX Runtime's.
    reason
        Why it does not match; empty where it does.
    right
        Shapes at which it matches.
    """

    model: Model
    nodes: int = 0
    compile_s: float = float("nan")
    compile_cpu_s: float = float("nan")
    differences: dict[Shape, Difference] = field(default_factory=dict)
    spreads: dict[Shape, float] = field(default_factory=dict)
    ratios: dict[Shape, float] = field(default_factory=dict)
    reason: str = ""
    right: list[Shape] = field(default_factory=list)

    @property
    def max_error(self) -> float:
        """The largest error over the shapes, not a number where there is none."""
        return max((each.error for each in self.differences.values()), default=float("nan"))

    @property
    def bound(self) -> float:
        """How far an output may be from the reference."""
        if not self.model.integer:
            return MODEL_REL
        return max(MODEL_REL, *self.spreads.values())

    @property
    def ratio(self) -> float:
        """The geometric mean of the ratios, not a number where there is none."""
        return geomean(self.ratios.values())

    @property
    def worst_ratio(self) -> float:
        """The largest ratio over the shapes, not a number where there is none."""
        return max(self.ratios.values(), default=float("nan"))

    @property
    def is_absurd(self) -> bool:
        """Whether it is more than `ABSURD_RATIO` slower than ONNX Runtime over its shapes."""
        return self.ratio > ABSURD_RATIO

    def as_json(self) -> dict[str, Any]:
        """Plain values."""
        return {
            "model": self.model.name,
            "matched": not self.reason,
            "nodes": self.nodes,
            "compile_s": _rounded(self.compile_s),
            "compile_cpu_s": _rounded(self.compile_cpu_s),
            "ratio": _rounded(self.ratio),
            "worst_ratio": _rounded(self.worst_ratio),
            "shapes": [
                {
                    "shape": s,
                    "error": _rounded(d.error, 9) if math.isfinite(d.error) else None,
                    "spread": _rounded(self.spreads[s], 9),
                    "ratio": _rounded(self.ratios.get(s, float("nan"))),
                }
                for s, d in self.differences.items()
            ],
            "reason": self.reason,
        }


def _rounded(value: float, digits: int = 4) -> float | None:
    """As JSON has it, which knows no NaN."""
    return None if value != value else round(value, digits)


def _children_cpu_s() -> float:
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def _check(model: Model, folder: Path, threads: int, seed: int) -> Row:
    row = Row(model)
    try:
        source = model.path()
        row.nodes = len(onnx.load(source, load_external_data=False).graph.node)
        compiled = folder / "model.so"
        cpu_s = _children_cpu_s()
        row.compile_s = compile_model(model.name, source, compiled, threads)
        row.compile_cpu_s = _children_cpu_s() - cpu_s
        with contextlib.ExitStack() as stack:
            peers = [
                stack.enter_context(
                    Peer(name, threads, "moonpoly.benchmarks.model_worker", _ANSWER_LIMIT_S)
                )
                for name in (_OURS, _PEER, MODEL_REFERENCE)
            ]
            for peer in peers:
                peer.ask("load", path=str(compiled if peer.name == _OURS else source))
            for shape in model.shapes:
                _run(row, shape, peers, folder, seed)
        row.reason = _judge(row)
    except MoonPolyError as err:
        row.reason = str(err)
    return row


def _run(row: Row, shape: Shape, peers: Sequence[Peer], folder: Path, seed: int) -> None:
    """Run the model at one shape and note what comes of it."""
    model = row.model
    inputs = folder / "inputs.npz"
    outputs = {peer.name: folder / f"{peer.name}.npz" for peer in peers}
    timed = peers[:2]

    def prepare(peer: Peer, rng: np.random.Generator | None = None) -> dict[str, Any]:
        if rng is not None:
            np.savez(inputs, allow_pickle=False, **model.inputs(shape, rng))
        return peer.ask(
            "prepare",
            inputs=str(inputs),
            outputs=str(outputs[peer.name]),
            sample_us=_PROTOCOL.sample_us if peer in timed and rng is None else None,
        )

    _, optimised, reference = peers
    spreads = []
    for draw in range(1, _SPREAD_DRAWS if model.integer else 1):
        prepare(reference, np.random.default_rng([seed, model.seed(shape), draw]))
        prepare(optimised)
        spreads.append(compare(outputs[_PEER], outputs[MODEL_REFERENCE]).error)
    # The reference first: an illegal shape is the registry's fault.
    prepare(reference, np.random.default_rng([seed, model.seed(shape)]))
    replies = {peer.name: prepare(peer) for peer in reversed(timed)}
    row.differences[shape] = compare(outputs[_OURS], outputs[MODEL_REFERENCE])
    row.spreads[shape] = max(*spreads, compare(outputs[_PEER], outputs[MODEL_REFERENCE]).error, 0.0)
    timings, _ = contend(replies, timed, _PROTOCOL)
    ours, theirs = (
        min(min(t.samples_us) for t in timings[name].values() if DYNAMIC in t.modes)
        for name in (_OURS, _PEER)
    )
    row.ratios[shape] = ours / theirs


def _judge(row: Row) -> str:
    """Note at which shapes the model is right, and say what is wrong at the others."""
    wrong = []
    for shape, difference in row.differences.items():
        text = _fault(difference, row.bound, integer=row.model.integer)
        if text:
            spread = f"between its two levels ONNX Runtime differs by {row.spreads[shape]:.1e}"
            wrong.append(f"at {'x'.join(map(str, shape))} {text}; {spread}")
        else:
            row.right.append(shape)
    return "; ".join(wrong)


def _fault(difference: Difference, bound: float, *, integer: bool) -> str:
    """Say what is wrong with an output, or nothing."""
    if not difference.error <= bound:
        return f"the error is {difference.error:.1e}, at most {bound:.1e} expected"
    # Entries that lie closer than the bound have no order of their own.
    if integer and not difference.top1_gap <= bound:
        return f"the largest entry is another one, {difference.top1_gap:.1e} below the right one"
    return ""


_COLUMNS = ("model", "nodes", "compile s", "cpu s", "shapes ok", "max error", "ours / ORT", "worst")


def _show(rows: Sequence[Row], out: Console) -> None:
    cells = []
    for row in rows:
        cells.append(
            (
                row.model.name,
                str(row.nodes or "-"),
                row.compile_s,
                row.compile_cpu_s,
                f"{len(row.right)}/{len(row.model.shapes)}",
                row.max_error,
                row.ratio,
                f"{row.worst_ratio:.2f}" + " SLOW" * row.is_absurd,
            )
        )
    out.print(table("models", _COLUMNS, cells))
    for row in rows:
        if row.reason:
            out.print(f"{row.model.name}: {row.reason}", markup=False, highlight=False)


def _say(row: Row, out: Console) -> None:
    """Print what became of a model as soon as it is known."""
    text = row.reason or (
        f"matches, error {number(row.max_error)}, {number(row.ratio)} of ONNX Runtime's time"
    )
    out.print(f"{row.model.name}: {text}", markup=False, highlight=False)


def main(models: Sequence[Model], *, seed: int, threads: int, json: Path | None) -> dict[str, Any]:
    """Compile `models` and compare each at all its shapes with unoptimised ONNX Runtime.

    Returns
    -------
    dict
        ``matched`` and ``total`` models, and ``slow``: how many of them take more than
        `ABSURD_RATIO` times as long as optimised ONNX Runtime, geometric mean over the shapes.

    Raises
    ------
    BenchmarkError
        After the table and the JSON file are written, if a model does not match.
    """
    out = console()
    facts = machine.facts(threads)
    print_facts("machine", facts, out)
    rows = []
    for model in track(models, "models", out):
        with tempfile.TemporaryDirectory(prefix="moonpoly-bench-") as folder:
            rows.append(_check(model, Path(folder), threads, seed))
        _say(rows[-1], out)
        # After each model: a long run that is stopped leaves what it found.
        write_json(json, _summary(rows), [row.as_json() for row in rows], machine=facts)
    _show(rows, out)
    for key, value in _summary(rows).items():
        out.print(f"[bold]{key} {value}[/]")
    wrong = [row for row in rows if row.reason]
    if wrong:
        raise BenchmarkError(
            f"{len(wrong)} of {len(rows)} models do not match: "
            f"{', '.join(row.model.name for row in wrong)}"
        )
    return _summary(rows)


def _summary(rows: Sequence[Row]) -> dict[str, int]:
    return {
        "matched": sum(not row.reason for row in rows),
        "total": len(rows),
        "slow": sum(row.is_absurd for row in rows),
    }
