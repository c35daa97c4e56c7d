"""Options that several commands share, and the parsing of their values."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Annotated

import typer

from moonpoly.target import target_names

TargetName = Annotated[
    str,
    typer.Option(
        "--target",
        metavar="NAME",
        help=f"The machine to build for: {', '.join(target_names())}, or host for the best here.",
    ),
]
Threads = Annotated[
    int | None,
    typer.Option(
        "--threads",
        min=1,
        help="Threads to use; else $MOONPOLY_NUM_THREADS, $TVM_NUM_THREADS, or all cores.",
    ),
]
FixedDims = Annotated[
    list[str] | None,
    typer.Option(
        "--dim",
        metavar="SYMBOL=SIZE",
        help="Give a symbolic dimension one size, such as seq=128. Repeatable.",
    ),
]
DimHints = Annotated[
    list[str] | None,
    typer.Option(
        "--dim-hint",
        metavar="SYMBOL=LOW:HIGH",
        help="The sizes to expect of a symbolic dimension, such as seq=1:512; others run as well. "
        "Repeatable.",
    ),
]

_SHAPE = re.compile(r"(?P<name>.+)=(?P<dims>\d+(?:x\d+)*|scalar)")
_HINT = re.compile(r"(?P<name>.+)=(?P<low>\d+)(?::(?P<high>\d+))?")


def parse_shapes(texts: Sequence[str]) -> dict[str, tuple[int, ...]]:
    """Parse ``name=2x37`` (``name=scalar`` for rank zero) into shapes by input name."""
    shapes = {}
    for text in texts:
        match = _SHAPE.fullmatch(text)
        if match is None:
            raise typer.BadParameter(f"--shape must look like input_ids=2x37, got {text!r}")
        dims = match["dims"]
        shapes[match["name"]] = () if dims == "scalar" else tuple(map(int, dims.split("x")))
    return shapes


def parse_dims(texts: Sequence[str]) -> dict[str, int]:
    """Parse ``seq=128`` into sizes by symbol."""
    dims: dict[str, int] = {}
    for text in texts:
        name, _, size = text.rpartition("=")
        if not name or not size.isdecimal():
            raise typer.BadParameter(f"--dim must look like seq=128, got {text!r}")
        if dims.setdefault(name, int(size)) != int(size):
            raise typer.BadParameter(f"--dim gives {name} two sizes, {dims[name]} and {size}")
    return dims


def parse_dim_hints(texts: Sequence[str]) -> dict[str, tuple[int, int]]:
    """Parse ``seq=1:512`` or ``seq=128`` into the lowest and highest size by symbol."""
    hints: dict[str, tuple[int, int]] = {}
    for text in texts:
        match = _HINT.fullmatch(text)
        low = int(match["low"]) if match else 0
        high = int(match["high"] or low) if match else 0
        if match is None or not 1 <= low <= high:
            raise typer.BadParameter(f"--dim-hint must look like seq=1:512, got {text!r}")
        name = match["name"]
        if hints.setdefault(name, (low, high)) != (low, high):
            raise typer.BadParameter(f"--dim-hint gives {name} two ranges; give one, such as 1:512")
    return hints
