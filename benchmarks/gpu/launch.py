"""``moonpoly bench launch --target``: what a product on a GPU costs the processor that calls it."""

from __future__ import annotations

import random
import statistics
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ..report import check_writable, console, print_facts, table, write_json
from ..shape_lists import Problem
from . import device
from .operands import OperandSet
from .types import Types, multiplier

# Rows a multiple of 16 bytes apart, which takes two tensor maps, and rows that aren't: sixteen.
PROBLEMS = {"aligned": Problem("launch", 48, 256, 512), "residue": Problem("launch", 48, 256, 509)}
# More sets of operands, and more shapes, than a thread keeps the maps and the plans of.
_SETS = 3000
_BATCHES = 40
# The queue of launches is longer than this: no call waits for the GPU.
_CALLS = 100


def operand_sets(types: Types, problem: Problem, rows: Sequence[int]) -> list[OperandSet]:
    """Return contiguous operands of so many rows of A each; all share one B."""
    import torch

    k, n = problem.k, problem.n
    align = types.aligned_items
    starts = np.cumsum([0, *(-(-m * max(k, n) // align) * align for m in rows)]).tolist()
    a, c = types.empty(starts[-1]), types.empty(starts[-1], output=True)
    b = types.empty(n * k).view(n, k)
    for operand in (a, b):
        types.fill(operand, torch.Generator(device="cuda").manual_seed(0))
    return [
        OperandSet(a[start : start + m * k].view(m, k), b, c[start : start + m * n].view(m, n))
        for m, start in zip(rows, starts, strict=False)
    ]


def host_us(kernels: Any, step: str, sets: Sequence[OperandSet]) -> list[float]:
    """Return the µs of a step of a call, without Python: the mean of each batch of calls."""
    import tvm_ffi

    from moonpoly import _ffi_api

    tensors = (
        [tvm_ffi.from_dlpack(each) for each in column]
        for column in zip(*((s.a, s.b.t(), s.c) for s in sets), strict=True)
    )
    us = _ffi_api.gpu_bench_host(kernels, step, *tensors, _CALLS, _BATCHES)
    return list(np.from_dlpack(us).tolist())


def python_us(call: Callable[[], None]) -> list[float]:
    """Return the µs of a call from Python, the mean of each batch."""
    import torch

    us = []
    for _ in range(_BATCHES + 1):
        start = time.perf_counter()
        for _ in range(_CALLS):
            call()
        us.append((time.perf_counter() - start) * 1e6 / _CALLS)
        torch.cuda.synchronize()
    return us[1:]


def measure(kernels: device.Kernels, problem: Problem, seed: int) -> dict[str, list[float]]:
    """Return the batches' µs by what was timed."""
    import moonpoly
    from moonpoly import _ffi_api

    types, handle = kernels.types, kernels.handle
    one = operand_sets(types, problem, [problem.m])
    shapes = random.Random(seed).sample(range(1, _SETS + 1), _SETS)
    of_any_shape = operand_sets(types, problem, shapes)
    many = operand_sets(types, problem, [problem.m] * _SETS)
    a, b, c = one[0].a, one[0].b.t(), one[0].c
    product = _ffi_api.gpu_product(handle, False, True)
    multiply = multiplier(types)
    found = {}
    # The steps' map is one of whole rows.
    if problem.k % types.aligned_items == 0:
        found["encode"] = host_us(handle, "encode", many)
        found["look_up"] = host_us(handle, "look_up", one)
    found |= {
        "plan": host_us(handle, "plan", one),
        "call": host_us(handle, "call", one),
        "call_new_operands": host_us(handle, "call", many),
        "call_new_shape": host_us(handle, "call", of_any_shape),
        "python_product": python_us(lambda: product(a, b, c)),
        "python_matmul": python_us(lambda: moonpoly.matmul(a, b, c, overlap=True)),
    }
    if types.has_peer(problem):
        found["python_torch"] = python_us(lambda: multiply(a, b, c))
    return found


def main(
    *,
    target: str,
    dtype: str = "float16",
    out_dtype: str = "",
    seed: int = 0,
    json: Path | None = None,
    kernels: device.Kernels | None = None,
) -> dict[str, Any]:
    """Time encoding a tensor map, finding one, planning, and whole calls, from C++ and Python.

    Returns
    -------
    dict
        The median µs of each, as ``{what}_us``, and for rows that are no multiple of 16 bytes
        apart as ``residue_{what}_us``.
    """
    check_writable(json)
    out = console()
    kernels = kernels or device.load_kernels(target, dtype, out_dtype)
    facts = device.facts()
    print_facts("machine", facts, out)
    print_facts("moonpoly", kernels.describe(), out)
    summary: dict[str, Any] = {}
    samples = []
    for name, problem in PROBLEMS.items():
        us = measure(kernels, problem, seed)
        prefix = "" if name == "aligned" else f"{name}_"
        for what, batches in us.items():
            summary[f"{prefix}{what}_us"] = round(statistics.median(batches), 4)
            samples.append(
                {"operands": name, "what": what, "us": [round(each, 4) for each in batches]}
            )
        out.print(
            table(
                f"{problem.m} x {problem.n} x {problem.k}, µs of the processor",
                ["", "median", "least", "most"],
                [(what, statistics.median(v), min(v), max(v)) for what, v in us.items()],
            )
        )
    write_json(json, summary, samples, machine=facts, kernels=kernels.describe())
    return summary
