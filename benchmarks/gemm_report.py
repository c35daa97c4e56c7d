"""Ratios, classes and tables of ``moonpoly bench gemm``."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from rich.console import Console

from .contenders import MODES
from .contest import Result
from .report import geomean, quantile, table
from .roofline import Roofline
from .shape_lists import CLASSES

OURS = "moonpoly"
_WORST_SHARE = 0.01
_WORST_ROWS = 15


@dataclass(frozen=True)
class Ratio:
    """One shape in one mode: the fastest peer against ours."""

    result: Result
    mode: str
    ours_us: float
    peer: str
    peer_us: float

    @property
    def value(self) -> float:
        """Peer µs / our µs: above 1, ours is faster."""
        return self.peer_us / self.ours_us


def ratios(results: Sequence[Result], modes: Sequence[str] = MODES) -> list[Ratio]:
    """Compare with the fastest way of the fastest peer, per shape and mode."""
    found = []
    for result in results:
        for mode in modes:
            peers = {name: result.best_us(name, mode) for name in result.timings if name != OURS}
            best = min(peers, key=peers.__getitem__)
            found.append(Ratio(result, mode, result.best_us(OURS, mode), best, peers[best]))
    return found


def _key_figures(found: Sequence[Ratio]) -> dict[str, float]:
    values = [ratio.value for ratio in found]
    return {
        "geomean": round(geomean(values), 4),
        "win_rate": round(sum(value > 1.0 for value in values) / len(values), 4),
        "worst_1pct": round(quantile(values, _WORST_SHARE), 4),
    }


def summarise(results: Sequence[Result]) -> dict[str, float]:
    """Geometric mean, win rate and the ratio below which 1 % lies: over both modes and of each."""
    summary: dict[str, float] = dict(_key_figures(ratios(results)))
    for mode in MODES:
        figures = _key_figures(ratios(results, (mode,)))
        summary |= {f"{name}_{mode}": value for name, value in figures.items()}
    summary["shapes"] = len(results)
    return summary


def _class_rows(results: Sequence[Result], mode: str, limits: Roofline) -> list[tuple[object, ...]]:
    rows: list[tuple[object, ...]] = []
    for kind in (*CLASSES, "all"):
        chosen = [x for x in ratios(results, (mode,)) if kind in ("all", x.result.problem.kind)]
        if not chosen:
            continue
        figures = _key_figures(chosen)
        gflops = [x.result.problem.operations / x.ours_us / 1e3 for x in chosen]
        reached = [limits.limit_us(x.result.problem) / x.ours_us for x in chosen]
        peer_reached = [limits.limit_us(x.result.problem) / x.peer_us for x in chosen]
        rows.append(
            (
                kind,
                len(chosen),
                figures["geomean"],
                figures["win_rate"],
                figures["worst_1pct"],
                geomean(gflops),
                geomean(reached),
                geomean(peer_reached),
            )
        )
    return rows


def show(
    results: Sequence[Result],
    overhead: Result,
    limits: Roofline,
    summary: dict[str, float],
    out: Console,
) -> None:
    """Print everything that the numbers say."""
    curve = ", ".join(f"{size >> 10} KB {gbs:.0f}" for size, gbs in limits.bandwidth)
    out.print(
        f"FMA peak {limits.peak_gflops:.0f} GFLOP/s ({limits.peak_core_gflops:.0f} on one core); "
        f"read GB/s by working set: {curve}"
    )
    names = list(overhead.timings)
    out.print(
        table(
            "per-call overhead, µs (1x1x1)",
            ["mode", *names],
            [(mode, *(overhead.best_us(name, mode) for name in names)) for mode in MODES],
        )
    )
    columns = [
        "class",
        "shapes",
        "geomean",
        "win rate",
        "worst 1 %",
        "GFLOP/s",
        "of limit",
        "best peer of limit",
    ]
    for mode in MODES:
        out.print(table(f"{mode} B: best peer / ours", columns, _class_rows(results, mode, limits)))
    _show_peers(results, out)
    _show_worst(results, limits, out)
    out.print(
        f"[bold]geomean {summary['geomean']:.3f}, win rate {summary['win_rate']:.3f}, "
        f"worst 1 % {summary['worst_1pct']:.3f}[/] over {summary['shapes']} shapes and both modes; "
        f"{sum(r.disturbed for r in results)} turns repeated because other programs took the cores"
    )


def _show_peers(results: Sequence[Result], out: Console) -> None:
    rows: list[tuple[object, ...]] = []
    for mode in MODES:
        best = [ratio.peer for ratio in ratios(results, (mode,))]
        for name in results[0].timings:
            if name == OURS:
                continue
            values = [r.best_us(name, mode) / r.best_us(OURS, mode) for r in results]
            rows.append((mode, name, geomean(values), best.count(name)))
    out.print(
        table(
            "against each peer alone",
            ["mode", "peer", "geomean", "shapes where it is the best peer"],
            rows,
            text_columns=2,
        )
    )


def _show_worst(results: Sequence[Result], limits: Roofline, out: Console) -> None:
    worst = sorted(ratios(results), key=lambda ratio: ratio.value)[:_WORST_ROWS]
    rows = []
    for ratio in worst:
        p = ratio.result.problem
        rows.append(
            (
                p.kind,
                ratio.mode,
                f"{p.m} x {p.n} x {p.k}",
                ratio.peer,
                ratio.value,
                ratio.ours_us,
                ratio.peer_us,
                limits.limit_us(p),
            )
        )
    out.print(
        table(
            "worst",
            ["class", "mode", "m x n x k", "best peer", "ratio", "ours µs", "peer µs", "limit µs"],
            rows,
            text_columns=4,
        )
    )
