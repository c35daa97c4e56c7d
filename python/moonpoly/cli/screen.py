"""What several commands print: the console, tables, shapes."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from rich import box
from rich.console import Console
from rich.markup import escape
from rich.table import Table

# Piped output has no width of its own: lines are kept whole for grep.
_PIPED_WIDTH = 200

console = Console(highlight=False, width=None if sys.stdout.isatty() else _PIPED_WIDTH)


def table(
    columns: Sequence[str], rows: Iterable[Sequence[object]], *, title: str | None = None
) -> Table:
    """Return a table; a column whose name ends in ``>`` is aligned to the right."""
    result = Table(title=title, box=box.SIMPLE_HEAD, title_justify="left", title_style="bold")
    for name in columns:
        result.add_column(
            name.removesuffix(">"),
            justify="right" if name.endswith(">") else "left",
            overflow="fold",
        )
    for row in rows:
        result.add_row(*(escape(str(cell)) for cell in row))
    return result


def facts(rows: Iterable[tuple[str, object]]) -> Table:
    """Return names with their values, without a heading."""
    result = Table(box=None, show_header=False, pad_edge=False)
    result.add_column(style="bold")
    result.add_column(overflow="fold")
    for name, value in rows:
        result.add_row(name, escape(str(value)))
    return result


def dims(shape: Iterable[int | str]) -> str:
    """Return a shape as ``2x37``."""
    return "x".join(map(str, shape)) or "scalar"


def report_counts(metadata: Mapping[str, Any]) -> str:
    """Return how many call sites were polymerized and how many operators were scheduled."""
    counts = Counter(item["status"] for item in metadata["report"])
    return ", ".join(f"{count} {status}" for status, count in counts.most_common()) or "empty graph"
