"""What can go wrong, each kind with the exit code that the command line ends with.

A message says what was expected, what was got and what to do, in one line.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar


class MoonPolyError(Exception):
    """Base of every error that a user can cause or mend."""

    exit_code: ClassVar[int] = 1


class ModelError(MoonPolyError):
    """The model file is not ONNX, is truncated, or its graph is invalid."""

    exit_code = 3


@dataclass(frozen=True)
class Refusal:
    """A node that can't be compiled.

    Parameters
    ----------
    op, node
        Its operator with the domain, and its name.
    place
        Node and opset, as messages name them.
    reason
        Why; empty where the operator is not known at all.
    """

    op: str
    node: str
    place: str
    reason: str = ""

    def __str__(self) -> str:
        return f"{self.op} ({self.place}){': ' * bool(self.reason)}{self.reason}"


class UnsupportedError(MoonPolyError):
    """The model is valid, but uses an operator, opset or form that is not supported.

    Parameters
    ----------
    refusals
        The nodes that can't be compiled, where the message is of such.
    """

    exit_code = 4

    def __init__(self, message: str, refusals: Sequence[Refusal] = ()) -> None:
        super().__init__(message)
        self.refusals = tuple(refusals)


class InputError(MoonPolyError):
    """A given input has a wrong name, rank, dtype or shape."""

    exit_code = 5


class ArtifactError(MoonPolyError):
    """An artifact or compiled model is foreign, truncated, or of another version."""

    exit_code = 6


class TargetError(MoonPolyError):
    """The target is unknown, or this machine lacks the features it needs."""

    exit_code = 7


class StorageError(MoonPolyError):
    """A file or folder can't be written or read: read-only, full, missing or forbidden."""

    exit_code = 8


class TuneError(MoonPolyError):
    """The search or the fit of the cost model could not be completed."""

    exit_code = 9
