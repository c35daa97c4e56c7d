"""What came of the standard's node tests, operator by operator, as a page of the docs."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

import onnx
from onnx_standard.cases import Case
from onnx_standard.outcome import Outcome, Status

_INTRODUCTION = """# What of the ONNX standard runs

The node tests of onnx {version} (`onnx.backend.test`), each imported, compiled and run by
MoonPoly, and compared with the standard's outputs at its own tolerances. This page is written by
`scripts/onnx_coverage.py --write`. Two inverse DFTs are compared with the standard's reference in
double precision: what it took in float32 is further off than its own tolerance.

A case is *counted* if all its inputs and outputs are tensors of float, float16, bfloat16, double,
integers of 8 to 64 bits, or bool, and its operator is not one of training. *Refused* is a case
that is not compiled, with an error that names the node and says why. *Failed* is any other
outcome than passing: each one is a defect.

"""
_SECTIONS = {
    True: "Counted cases",
    False: "Other types: strings, sequences, narrow floats, training",
}


def write_report(path: Path, cases: Mapping[str, Case], outcomes: Sequence[Outcome]) -> None:
    """Write the page for the outcomes of all cases."""
    parts = [_INTRODUCTION.format(version=onnx.__version__)]
    for counted, title in _SECTIONS.items():
        chosen = [outcome for outcome in outcomes if cases[outcome.name].counted is counted]
        parts.append(_section(title, cases, chosen))
    parts.append(_list_of_failures(outcomes))
    path.write_text("".join(parts).rstrip() + "\n", encoding="utf-8")


def _section(title: str, cases: Mapping[str, Case], outcomes: Iterable[Outcome]) -> str:
    by_operator: dict[str, list[Outcome]] = defaultdict(list)
    for outcome in outcomes:
        by_operator[cases[outcome.name].operator].append(outcome)
    rows = [
        f"| {operator} | {_count(found, Status.PASSED)} | {_count(found, Status.REFUSED)} "
        f"| {_failed(found)} | {_reasons(found)} |\n"
        for operator, found in sorted(by_operator.items())
    ]
    everything = [outcome for found in by_operator.values() for outcome in found]
    passed, total = _count(everything, Status.PASSED), len(everything)
    share = 100.0 * passed / max(total, 1)
    return (
        f"## {title}\n\n{passed} of {total} pass ({share:.1f} %), "
        f"{_count(everything, Status.REFUSED)} are refused, {_failed(everything)} fail.\n\n"
        "| operator | passed | refused | failed | why not |\n|---|---|---|---|---|\n"
        + "".join(rows)
        + "\n"
    )


def _count(outcomes: Iterable[Outcome], status: Status) -> int:
    return sum(outcome.status is status for outcome in outcomes)


def _failed(outcomes: Iterable[Outcome]) -> int:
    return sum(outcome.status not in (Status.PASSED, Status.REFUSED) for outcome in outcomes)


def _reasons(outcomes: Iterable[Outcome]) -> str:
    """Return the commonest reasons, without what differs from case to case."""
    reasons = Counter(
        _plain(outcome.reason) for outcome in outcomes if outcome.status is Status.REFUSED
    )
    return "; ".join(reason for reason, _ in reasons.most_common(3))


def _plain(reason: str) -> str:
    found = re.search(r"\(node '[^']*',[^)]*\): (.*)", reason)
    if found is None:
        return "not supported" if "unsupported operator" in reason else reason[:120]
    return found[1].replace("|", "/")[:120]


def _list_of_failures(outcomes: Iterable[Outcome]) -> str:
    failed = [o for o in outcomes if o.status not in (Status.PASSED, Status.REFUSED)]
    if not failed:
        return ""
    lines = [f"- `{o.name}`: {o.status.value}\n" for o in sorted(failed, key=lambda o: o.name)]
    return "## Cases that fail\n\n" + "".join(lines)
