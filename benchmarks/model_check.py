"""``moonpoly bench models --check``: does every real model compile and give the right values?

A model is compiled by the command line and run by workers of its own, so that one that can't be
had, is refused or crashes is a row of the table and not the end of the run.
"""

from __future__ import annotations

import contextlib
import resource
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
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
from .model_outputs import Difference, Vectors, compare, compile_model
from .model_row import LEVELS, ROUNDING, Row
from .peer import BenchmarkError, Peer
from .report import console, number, print_facts, table, track, write_json
from .rounding import shake

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
            peers = _start(stack, model, compiled, folder, threads)
            for shape in model.shapes:
                _run(row, shape, peers, folder, seed)
        row.judge()
    except MoonPolyError as err:
        row.reason = str(err)
    return row


@dataclass(frozen=True)
class _Peers:
    """The workers with the model loaded.

    `shaken` is the reference with the last bits of its floats at random, for a model of integers.
    """

    ours: Peer
    optimised: Peer
    reference: Peer
    shaken: Peer | None


def _start(
    stack: contextlib.ExitStack, model: Model, compiled: Path, folder: Path, threads: int
) -> _Peers:
    def start(name: str, path: Path) -> Peer:
        module = "moonpoly.benchmarks.model_worker"
        peer = stack.enter_context(Peer(name, threads, module, _ANSWER_LIMIT_S))
        peer.ask("load", path=str(path))
        return peer

    source = model.path()
    shaken = None
    if model.integer and shake(source, folder / "shaken.onnx"):
        shaken = start(MODEL_REFERENCE, folder / "shaken.onnx")
    return _Peers(
        start(_OURS, compiled), start(_PEER, source), start(MODEL_REFERENCE, source), shaken
    )


def _run(row: Row, shape: Shape, peers: _Peers, folder: Path, seed: int) -> None:
    """Run the model at one shape and note what comes of it."""
    model = row.model
    inputs = folder / "inputs.npz"

    def prepare(peer: Peer, sample_us: float | None = None) -> tuple[Path, dict[str, Any]]:
        outputs = folder / f"{'shaken' if peer is peers.shaken else peer.name}.npz"
        return outputs, peer.ask(
            "prepare", inputs=str(inputs), outputs=str(outputs), sample_us=sample_us
        )

    others: list[Vectors] = []
    spreads: dict[str, list[Difference]] = {LEVELS: [], ROUNDING: []}
    # The last draw, which is ours to compute too, has the seed of a model of floats.
    for draw in range(_SPREAD_DRAWS - 1 if model.integer else 0, -1, -1):
        rng = np.random.default_rng([seed, model.seed(shape), *[draw] * bool(draw)])
        np.savez(inputs, allow_pickle=False, **model.inputs(shape, rng))
        # The reference first: an illegal shape is the registry's fault.
        want, _ = prepare(peers.reference)
        if not model.integer:
            continue
        for rule, peer in ((LEVELS, peers.optimised), (ROUNDING, peers.shaken)):
            if peer is not None:
                got, _ = prepare(peer)
                spreads[rule].append(compare(got, want, model.embedding, others))
        if draw and model.embedding:
            with np.load(want) as file:
                others.append(file[model.embedding])
    timed = (peers.ours, peers.optimised)
    prepared = {peer.name: prepare(peer, _PROTOCOL.sample_us) for peer in reversed(timed)}
    row.differences[shape] = compare(prepared[_OURS][0], want, model.embedding, others)
    if model.integer:
        for rule, found in spreads.items():
            row.spreads.setdefault(rule, {})[shape] = Difference.worst(found)
    timings, _ = contend({name: reply for name, (_, reply) in prepared.items()}, timed, _PROTOCOL)
    ours, theirs = (
        min(min(t.samples_us) for t in timings[name].values() if DYNAMIC in t.modes)
        for name in (_OURS, _PEER)
    )
    row.ratios[shape] = ours / theirs


_COLUMNS = (
    "model",
    "nodes",
    "compile s",
    "cpu s",
    "shapes ok",
    "max error",
    "rule",
    "ours / ORT",
    "worst",
)


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
                row.rule or "-",
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
        f"matches by {row.rule}, error {number(row.max_error)}, "
        f"{number(row.ratio)} of ONNX Runtime's time"
    )
    out.print(f"{row.model.name}: {text}", markup=False, highlight=False)


def main(models: Sequence[Model], *, seed: int, threads: int, json: Path | None) -> dict[str, Any]:
    """Compile `models` and compare each at all its shapes with unoptimised ONNX Runtime.

    Returns
    -------
    dict
        ``matched`` and ``total`` models, and ``slow``: how many of them take more than
        `model_row.ABSURD_RATIO` times as long as optimised ONNX Runtime, geometric mean over the
        shapes.

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
