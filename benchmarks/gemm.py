"""``moonpoly bench gemm``: the stand-alone product against ONNX Runtime, oneDNN and OpenBLAS."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rich.console import Console

from moonpoly import config

from . import gemm_report, machine, roofline, shape_lists
from .contenders import GEMM_CONTENDERS, MODES
from .contest import Protocol, Result, measure
from .peer import Peer
from .report import check_writable, console, print_facts, track, write_json
from .shape_lists import Problem
from .tolerances import OPERATOR_REL

OURS = "moonpoly"
PEERS = tuple(name for name in GEMM_CONTENDERS if name != OURS)

_OVERHEAD = Problem("overhead", 1, 1, 1)


def _measure_all(
    problems: Sequence[Problem], threads: int, protocol: Protocol, out: Console
) -> tuple[list[Result], Result, dict[str, dict[str, str]], dict[str, float]]:
    """Return the results, the overhead, each contender's facts and its idle CPU seconds."""
    with contextlib.ExitStack() as stack:
        peers = [stack.enter_context(Peer(name, threads)) for name in (OURS, *PEERS)]
        facts = {peer.name: peer.facts for peer in peers}
        for name, pairs in facts.items():
            print_facts(name, pairs, out)
        for peer in peers:
            peer.ask(
                "reserve",
                input_bytes=max(p.input_bytes for p in problems),
                output_bytes=max(p.output_bytes for p in problems),
            )
        overhead = measure(_OVERHEAD, peers, protocol)
        results = []
        for problem in track(problems, "shapes", out):
            result = measure(problem, peers, protocol)
            _check(result)
            results.append(result)
        return results, overhead, facts, {peer.name: peer.idle_cpu_s for peer in peers}


def _check(result: Result) -> None:
    """Refuse to compare a contender that computes something else."""
    from .peer import BenchmarkError

    for contender, ways in result.timings.items():
        for way, timing in ways.items():
            if not timing.error <= OPERATOR_REL:
                p = result.problem
                raise BenchmarkError(
                    f"{contender}/{way} is wrong at {p.m}x{p.n}x{p.k}: error {timing.error:.1e}, "
                    f"at most {OPERATOR_REL:.0e} expected"
                )


def main(
    *,
    sample: int | None = None,
    seed: int = 0,
    shapes: Path | None = None,
    threads: int | None = None,
    json: Path | None = None,
    plot: Path | None = None,
    protocol: Protocol | None = None,
) -> dict[str, Any]:
    """Measure, print and write; return the summary.

    Parameters
    ----------
    sample, seed
        Measure this many shapes, drawn by class with the seed; all of them by default.
    shapes
        A CSV with columns m, n, k instead of the built-in lists.
    threads
        Threads of every contender; the usable cores by default.
    json, plot
        Files to write the samples and the picture of the ratios to.
    protocol
        How long each shape is measured.

    Returns
    -------
    dict
        ``geomean``, ``win_rate`` and ``worst_1pct`` of best peer µs / our µs over both modes, and
        the same with the suffixes ``_constant`` and ``_dynamic``.

    Raises
    ------
    BenchmarkError
        If a peer is missing, breaks or computes something wrong.
    """
    check_writable(json)
    check_writable(plot)
    threads = threads or config.num_threads()
    out = console()
    problems = shape_lists.sample(shape_lists.load(shapes), sample, seed)
    facts = machine.facts(threads)
    print_facts("machine", facts, out)
    limits = roofline.measure(threads)
    results, overhead, contenders, idle_cpu_s = _measure_all(
        problems, threads, protocol or Protocol(), out
    )
    summary = gemm_report.summarise(results)
    gemm_report.show(results, overhead, limits, summary, out)
    if plot is not None:
        from .plot import plot_ratios

        plot_ratios(results, plot)
    write_json(
        json,
        summary,
        [r.as_json() | {"limit_us": round(limits.limit_us(r.problem), 4)} for r in results],
        machine=facts,
        contenders=contenders,
        roofline=limits.as_json(),
        overhead_us={m: {c: overhead.best_us(c, m) for c in overhead.timings} for m in MODES},
        idle_cpu_s=idle_cpu_s,
    )
    return summary
