"""Running one case through MoonPoly, and what can come of it."""

from __future__ import annotations

import enum
import re
from collections.abc import Iterator
from dataclasses import dataclass

import onnx
from onnx.backend.test.runner import Runner
from onnx_standard.cases import Case, load_cases

import moonpoly
from moonpoly.error import UnsupportedError

# A refusal that tells of the converter's code, not of the model, is one that nobody has thought of.
_SLIP = re.compile(r"\((Assertion|Attribute|Index|Key|Lookup|Type)Error: ")


class Status(enum.Enum):
    """What came of a case. Only the first two are right."""

    PASSED = "passed"
    REFUSED = "refused"  # at compile time, by the operator's name
    WRONG = "wrong"  # other values, shapes or dtypes than the standard's
    ERROR = "error"  # any other exception, or a refusal that names nothing
    CRASHED = "crashed"  # the process died
    HUNG = "hung"


@dataclass(frozen=True)
class Outcome:
    """What came of one case, in words."""

    name: str
    status: Status
    reason: str = ""


def run_named(name: str) -> Outcome:
    """Run the case of that name."""
    return run_case(load_cases()[name])


def run_case(case: Case) -> Outcome:
    """Compile and run a case and compare its outputs at its own tolerances."""
    try:
        executable = moonpoly.compile(case.model)
    except UnsupportedError as err:
        reason = _one_line(err)
        names = [*_operators(case.model.graph), case.operator, *_tensor_names(case)]
        named = any(name in reason for name in names) and not _SLIP.search(reason)
        return Outcome(case.name, Status.REFUSED if named else Status.ERROR, reason)
    except Exception as err:  # noqa: BLE001 - every kind is an outcome to report
        return Outcome(case.name, Status.ERROR, f"compile: {_described(err)}")
    try:
        feeds = {
            spec.name: value for spec, value in zip(executable.inputs, case.inputs, strict=True)
        }
        outputs = list(executable(**feeds).values())
    except Exception as err:  # noqa: BLE001 - every kind is an outcome to report
        return Outcome(case.name, Status.ERROR, f"run: {_described(err)}")
    try:
        Runner.assert_similar_outputs(case.outputs, outputs, case.rtol, case.atol)
    except (AssertionError, TypeError, ValueError) as err:
        return Outcome(case.name, Status.WRONG, _one_line(err))
    return Outcome(case.name, Status.PASSED)


def _operators(graph: onnx.GraphProto) -> Iterator[str]:
    """Yield the operators of a graph and of its subgraphs."""
    for node in graph.node:
        yield node.op_type
        for attribute in node.attribute:
            for subgraph in [attribute.g, *attribute.graphs]:
                yield from _operators(subgraph)


def _tensor_names(case: Case) -> list[str]:
    graph = case.model.graph
    return [repr(value.name) for value in [*graph.input, *graph.output]]


def _described(err: Exception) -> str:
    return f"{type(err).__name__}: {_one_line(err)}"


def _one_line(err: Exception, limit: int = 400) -> str:
    return " ".join(str(err).split())[:limit]
