"""``moonpoly bench gemm --target``: the product on a GPU against cuBLAS and cuBLASLt."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from .. import shape_lists
from ..report import check_writable, console, print_facts, quantile, track, write_json
from . import device, oracle
from .contest import Contest, Protocol
from .report import class_rows, show, summarise
from .select import select_us

# Shapes that are measured with operands out of the cache too.
_COLD_SHAPES = 300


def main(
    *,
    target: str,
    dtype: str = "float16",
    out_dtype: str = "",
    sample: int | None = None,
    seed: int = 0,
    shapes: Path | None = None,
    json: Path | None = None,
    plot: Path | None = None,
    oracle_shapes: int | None = oracle.SHAPES,
    protocol: Protocol | None = None,
    kernels: device.Kernels | None = None,
) -> dict[str, Any]:
    """Measure, print and write; return the summary.

    C (m, n) = A (m, k) · B (n, k)ᵀ with contiguous operands, as a linear layer has them.

    Parameters
    ----------
    target, dtype, out_dtype
        Which artifact to run.
    sample, seed
        Measure this many shapes, drawn by class with the seed; all of them by default.
    shapes
        A CSV with columns m, n, k instead of the built-in lists.
    json, plot
        Files to write the samples and the picture to.
    oracle_shapes
        Held-out shapes of which every plan is measured as well; none for 0 or None.
    protocol
        How long each shape is measured.
    kernels
        Kernels to run instead of the artifact's.

    Returns
    -------
    dict
        ``geomean_pdl``, ``geomean_nopdl``: cuBLAS's µs over ours with and without overlapping
        launches; ``geomean_best_of_lt``: the fastest of cuBLASLt's choices over ours;
        ``win_rate``, ``worst_1pct`` against cuBLAS; ``select_us``: median µs of a selection;
        ``of_oracle``.

    Raises
    ------
    BenchmarkError
        If there is no GPU, or a contender computes something wrong.
    """
    check_writable(json)
    check_writable(plot)
    out = console()
    kernels = kernels or device.load_kernels(target, dtype, out_dtype)
    listed = shape_lists.load(shapes)
    possible = [problem for problem in listed if kernels.types.has_peer(problem)]
    problems = shape_lists.sample(possible, sample, seed)
    contest = Contest(kernels.handle, kernels.types, protocol or Protocol(), seed)
    facts = device.facts(contest.lt.library.version())
    print_facts("machine", facts, out)
    print_facts("moonpoly", kernels.describe(), out)
    ceiling = device.measure_ceiling(kernels.types)
    cold = {id(p) for p in shape_lists.sample(problems, min(_COLD_SHAPES, len(problems)), seed)}
    results = [
        contest.measure(problem, cold=id(problem) in cold)
        for problem in track(problems, "shapes", out)
    ]
    summary = summarise(results)
    summary["shapes_without_peer"] = len(listed) - len(possible)
    summary["select_us"] = round(
        quantile(select_us(kernels.handle, problems, cached=False), 0.5), 4
    )
    summary["cached_select_us"] = round(
        quantile(select_us(kernels.handle, problems, cached=True), 0.5), 4
    )
    held_out = _oracle(contest, kernels, oracle_shapes, seed, out)
    summary |= {key: value for key, value in oracle.summarise(held_out).items() if key != "shapes"}
    show(results, ceiling, out)
    out.print(summary)
    document: dict[str, Any] = {
        "machine": facts,
        "kernels": kernels.describe(),
        "ceiling": {"tflops": round(ceiling.tflops, 1), "gbs": round(ceiling.gbs, 1)},
        "classes": class_rows(results, ceiling),
        "oracle": held_out,
    }
    write_json(json, summary, [r.as_json() for r in results], **document)
    if plot is not None:
        from .plot import plot_results

        plot_results([r.as_json() for r in results], ceiling, plot)
    return summary


def _oracle(
    contest: Contest, kernels: device.Kernels, count: int | None, seed: int, out: Any
) -> list[dict[str, Any]]:
    problems = oracle.held_out_shapes(count or 0, seed, kernels.types.aligned_items)
    ways = [
        oracle.Oracle(kernels, contest.stage, contest.pool, overlap=overlap)
        for overlap in (True, False)
    ]
    rows = [
        ways[index % 2].sample(problem) | {"overlap": index % 2 == 0}
        for index, problem in enumerate(track(problems, "oracle", out))
    ]
    if rows:
        oracle.show(rows, out)
    # What every plan took is written by `bench oracle`.
    return [{key: value for key, value in row.items() if key != "looks"} for row in rows]
