"""``moonpoly bench validity --target``: products on a GPU against float64, entry by entry.

Every shape is run by the selector's plan and by others of its plans, twice each: no entry may stay
unwritten, nothing around C may change, and both times must give the same bits.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..report import check_writable, console, print_facts, table, track, write_json
from . import device
from .contest import describe

SHAPES = 2_400
# Sizes around tiles, of one line, and primes.
_SMALL = (1, 2, 3, 5, 7, 8, 9, 13, 15, 16, 17, 24, 31, 32, 33, 47, 63, 64, 65, 72, 96, 97, 127, 128)
_AWKWARD = (*_SMALL, 129, 136, 191, 193, 251, 255, 256, 257, 384, 509, 512, 513, 1009, 1024, 2053)
_LONG = (4096, 8191, 16_384, 32_771, 65_537, 131_072, 500_000)
_MOST_OPERATIONS = 1 << 34
# What lies around C, and what it is filled with.
_GUARD_ROWS, _GUARD_COLUMNS = 2, 16
_OTHER_PLANS = 2
_LAYOUTS = ("nt", "nt", "nt", "nn", "tn", "tt")


@dataclass(frozen=True)
class Case:
    """A shape and how its operands lie: layout, items before them, items between rows."""

    m: int
    n: int
    k: int
    layout: str
    offset: int
    gap: int
    c_offset: int


def cases(count: int, seed: int, aligned: int = 8) -> Iterator[Case]:
    """Draw cases: awkward sizes, any sizes, long reductions; aligned operands and others."""
    rng = random.Random(seed)
    made = 0
    while made < count:
        style = made % 8
        m, n, k = (rng.choice(_AWKWARD) for _ in range(3))
        if style in (5, 6):
            m, n, k = (round(4096 ** rng.random()) for _ in range(3))
        elif style == 7:
            m, n, k = rng.choice(_SMALL), rng.choice(_SMALL), rng.choice(_LONG)
        if style < 3:
            k = -(-k // aligned) * aligned
        if 2 * m * n * k > _MOST_OPERATIONS:
            continue
        made += 1
        shifted = rng.random() < 0.25
        yield Case(
            m,
            n,
            k,
            rng.choice(_LAYOUTS),
            rng.randrange(8) if shifted else 0,
            rng.choice((0, 0, aligned, 5)),
            rng.randrange(9) if shifted else 0,
        )


class Checker:
    """Runs cases on the GPU."""

    def __init__(self, kernels: device.Kernels, seed: int) -> None:
        import torch

        self._torch = torch
        self._kernels = kernels.handle
        self._types = kernels.types
        self._generator = torch.Generator(device="cuda").manual_seed(seed)
        self._rng = random.Random(seed)
        self._bits = torch.int16 if kernels.types.out_bytes == 2 else torch.int32

    def check(self, case: Case) -> dict[str, str]:
        """Return what is wrong, by plan; nothing if all is well."""
        a = self._matrix(case.m, case.k, case, turned=case.layout[0] == "t")
        b = self._matrix(case.k, case.n, case, turned=case.layout[1] == "t")
        exact = a.double() @ b.double()
        size = a.double().abs() @ b.double().abs()
        unit, least = self._types.rounding
        limit = unit * exact.abs() + least + self._types.operator_rel * size
        wrong = {}
        for plan in self._plans(case, a, b):
            first, second = (self._run(case, a, b, plan, poison) for poison in (7.0, -9.0))
            name = describe(plan) if plan else "chosen"
            if isinstance(first, str) or isinstance(second, str):
                wrong[name] = str(first if isinstance(first, str) else second)
            elif not bool(((first.double() - exact).abs() <= limit).all()):
                worst = ((first.double() - exact).abs() / limit.clamp_min(1e-30)).max()
                wrong[name] = f"{float(worst):.3g} times the tolerance"
            elif not self._torch.equal(first.view(self._bits), second.view(self._bits)):
                wrong[name] = "other bits the second time"
        return wrong

    def _matrix(self, rows: int, columns: int, case: Case, *, turned: bool) -> Any:
        """Random values, after ``offset`` items and with ``gap`` between lines."""
        lines, length = (columns, rows) if turned else (rows, columns)
        stride = length + case.gap
        data = self._types.empty(case.offset + lines * stride)
        self._types.fill(data, self._generator)
        matrix = data[case.offset :].view(lines, stride)[:, :length]
        return matrix.t() if turned else matrix

    def _plans(self, case: Case, a: Any, b: Any) -> list[str]:
        """The selector's own way, and a few of the plans that it chooses from."""
        from moonpoly import _ffi_api

        aligned = (
            all(
                x.data_ptr() % 16 == 0 and max(x.stride()) % self._types.aligned_items == 0
                for x in (a, b)
            )
            and min(case.m, case.n, case.k) > 1
        )
        if case.layout != "nt" or not aligned or min(case.m, case.n, case.k) == 0:
            return [""]
        every = _ffi_api.gpu_enumerate_plans(self._kernels, case.m, case.n, case.k)
        return ["", *self._rng.sample(every, min(_OTHER_PLANS, len(every)))]

    def _run(self, case: Case, a: Any, b: Any, plan: str, poison: float) -> Any:
        import tvm_ffi

        from moonpoly import _ffi_api

        m, n = case.m, case.n
        stride = n + _GUARD_COLUMNS
        whole = self._types.empty(case.c_offset + (m + _GUARD_ROWS) * stride, output=True)
        whole.fill_(poison)
        rows = whole[case.c_offset :].view(m + _GUARD_ROWS, stride)
        c = rows[:m, :n]
        c.fill_(self._types.poison)
        tensors = tuple(map(tvm_ffi.from_dlpack, (a, b, c)))
        with tvm_ffi.use_raw_stream(
            tvm_ffi.device("cuda", 0), self._torch.cuda.current_stream().cuda_stream
        ):
            if plan:
                _ffi_api.gpu_run_plan(self._kernels, plan, *tensors)
            else:
                _ffi_api.gpu_gemm(self._kernels, *tensors, True)
        unwritten = (c == self._types.poison) if self._types.exact else c.isnan()
        if bool(unwritten.any()):
            return "entries were not written"
        around = (rows[m:], rows[:m, n:], whole[: case.c_offset])
        if not all(bool((part == poison).all()) for part in around):
            return "wrote outside of C"
        return c.contiguous()


def main(
    *,
    target: str,
    dtype: str = "float16",
    out_dtype: str = "",
    sample: int | None = None,
    seed: int = 0,
    json: Path | None = None,
    kernels: device.Kernels | None = None,
) -> dict[str, Any]:
    """Check shapes and count those that are right in every plan that was tried.

    Returns
    -------
    dict
        ``valid`` and ``total``.
    """
    check_writable(json)
    out = console()
    kernels = kernels or device.load_kernels(target, dtype, out_dtype)
    print_facts("moonpoly", kernels.describe(), out)
    checker = Checker(kernels, seed)
    zero = [Case(*shape, "nt", 0, 0, 0) for shape in ((0, 5, 8), (5, 0, 8), (5, 7, 0), (0, 0, 0))]
    drawn = [*zero, *cases(sample or SHAPES, seed, kernels.types.aligned_items)]
    wrong = []
    for case in track(drawn, "shapes", out):
        if found := checker.check(case):
            wrong.append((case, found))
    summary = {"valid": len(drawn) - len(wrong), "total": len(drawn)}
    rows = [
        {**vars(case), "plan": plan, "what": what}
        for case, found in wrong
        for plan, what in found.items()
    ]
    if rows:
        columns = ("m", "n", "k", "layout", "offset", "gap", "c_offset", "plan", "what")
        out.print(table("wrong", columns, [[row[c] for c in columns] for row in rows[:40]]))
    out.print(f"[bold]{summary['valid']} of {summary['total']} shapes are right[/]")
    write_json(json, summary, rows, kernels=kernels.describe())
    return summary
