"""How every benchmark speaks: header, progress, tables, and the JSON file."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table

from moonpoly import config

Item = TypeVar("Item")


def console() -> Console:
    """Standard output; wide enough for a table when it isn't a terminal."""
    plain = Console()
    return plain if plain.is_terminal else Console(width=120)


def geomean(values: Iterable[float]) -> float:
    """Geometric mean; not a number for no values."""
    logs = [math.log(value) for value in values]
    return math.exp(math.fsum(logs) / len(logs)) if logs else math.nan


def quantile(values: Sequence[float], q: float) -> float:
    """The value below which the share `q` of `values` lies, interpolated."""
    ordered = sorted(values)
    if not ordered:
        return math.nan
    position = q * (len(ordered) - 1)
    low = math.floor(position)
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] + (position - low) * (ordered[high] - ordered[low])


def track(items: Sequence[Item], what: str, out: Console) -> Iterator[Item]:
    """Yield the items under a progress bar with the time left.

    The bar is redrawn between items only: a drawing thread would take a core from what is measured.
    """
    with Progress(
        TextColumn(what),
        BarColumn(),
        MofNCompleteColumn(),
        TimeRemainingColumn(),
        console=out,
        auto_refresh=False,
    ) as progress:
        task = progress.add_task(what, total=len(items))
        for item in items:
            progress.refresh()
            yield item
            progress.advance(task)
        progress.refresh()


def table(
    title: str, columns: Sequence[str], rows: Iterable[Sequence[object]], text_columns: int = 1
) -> Table:
    """A table whose first `text_columns` columns are text and the others right-aligned numbers."""
    made = Table(title=title, title_justify="left", title_style="bold")
    for index, column in enumerate(columns):
        made.add_column(column, justify="left" if index < text_columns else "right")
    for row in rows:
        made.add_row(*(number(cell) for cell in row))
    return made


def number(value: object) -> str:
    """Print a cell: floats with four significant digits at most, everything else as it is."""
    if not isinstance(value, float):
        return str(value)
    if math.isnan(value):
        return "-"
    if value != 0 and abs(value) < 1e-3:
        return f"{value:.1e}"
    digits = 0 if abs(value) >= 1000 else 1 if abs(value) >= 100 else 2 if abs(value) >= 10 else 3
    return f"{value:,.{digits}f}"


def print_facts(title: str, facts: Mapping[str, str], out: Console) -> None:
    """Print pairs as a table without a head."""
    made = Table(title=title, title_justify="left", title_style="bold", show_header=False)
    for name, value in facts.items():
        made.add_row(name, value)
    out.print(made)


def write_json(
    path: Path | None,
    summary: Mapping[str, Any],
    samples: Sequence[Mapping[str, Any]],
    **more: Any,
) -> None:
    """Write ``{"summary": …, "samples": …, …}`` to `path`, whole or not at all; not for None.

    Each sample takes a line, so that thousands of them can be read, searched and compared.

    Raises
    ------
    StorageError
        If the file cannot be written.
    """
    if path is None:
        return
    document = {"summary": summary, **more, "samples": list(samples)}
    entries = (f"{json.dumps(name)}: {_laid_out(value)}" for name, value in document.items())
    config.atomic_write(path, ("{\n" + ",\n".join(entries) + "\n}\n").encode())


def _laid_out(value: Any) -> str:
    """Return a value as JSON: a line, or one for each item of a list."""
    if not isinstance(value, list):
        return json.dumps(value)
    return "[\n" + ",\n".join(json.dumps(item) for item in value) + "\n]"


def check_writable(path: Path | None) -> None:
    """Fail before a long measurement rather than after it.

    Raises
    ------
    StorageError
        If a file cannot be made at `path`.
    """
    if path is None:
        return
    from moonpoly.error import StorageError

    if not path.parent.is_dir():
        raise StorageError(f"cannot write {path}: the folder {path.parent} does not exist")
