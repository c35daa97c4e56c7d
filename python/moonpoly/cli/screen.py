"""What several commands print: the console, tables, shapes."""

from __future__ import annotations

import sys
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from rich import box
from rich.console import Console
from rich.markup import escape
from rich.table import Table

# Piped output has no width of its own: lines are kept whole for grep.
_PIPED_WIDTH = 200

console = Console(highlight=False, width=None if sys.stdout.isatty() else _PIPED_WIDTH)


class Steps:
    """What is told of work in steps: shows it, and adds up the seconds of each step.

    Parameters
    ----------
    show
        Called with a step, how many of its parts are done and how many there are.
    clock
        Seconds from any start.
    """

    def __init__(
        self, show: Callable[[str, int, int], None], clock: Callable[[], float] = time.monotonic
    ) -> None:
        self.seconds: dict[str, float] = {}
        self._show = show
        self._clock = clock
        self._step, self._since = "", clock()

    def __call__(self, step: str, done: int, total: int) -> None:
        """Say that a part of ``step`` begins."""
        if step != self._step:
            self.stop()
            self._step = step
        self._show(step, done, total)

    def stop(self) -> None:
        """Say that the last step has ended."""
        now = self._clock()
        if self._step:
            self.seconds[self._step] = self.seconds.get(self._step, 0.0) + now - self._since
        self._step, self._since = "", now

    def __str__(self) -> str:
        total = sum(self.seconds.values())
        parts = ", ".join(f"{step} {seconds:.1f}" for step, seconds in self.seconds.items())
        return f"{total:.1f} s ({parts})"


@contextmanager
def step_bar(title: str) -> Iterator[Steps]:
    """Show a bar for work in steps; gives what is to be told of them."""
    from moonpoly.autotune.progress import progress

    with progress() as bar:
        task = bar.add_task(title, total=None)

        def show(step: str, done: int, total: int) -> None:
            bar.update(task, description=f"{title}: {step}", completed=done, total=total)

        steps = Steps(show)
        yield steps
        steps.stop()


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
