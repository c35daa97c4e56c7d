"""Which value a name means, in a graph, its subgraphs, and the functions that these become."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping

from moonpoly.compiler.frontend.graph.subgraphs import Frame
from moonpoly.compiler.frontend.node.values import Value


class Scopes:
    """The names of the graphs that are being walked, outermost first.

    Parameters
    ----------
    main
        The frame of the main function.
    """

    def __init__(self, main: Frame) -> None:
        self._names: list[dict[str, Value]] = [{}]
        self._frames = [main]

    @property
    def frame(self) -> Frame:
        """What belongs to the function under construction."""
        return self._frames[-1]

    @property
    def is_main(self) -> bool:
        """Whether that is the main function."""
        return len(self._frames) == 1

    def define(self, names: Mapping[str, Value]) -> None:
        """Add names to the innermost graph."""
        self._names[-1].update(names)

    def find(self, name: str) -> Value | None:
        """Return what a name means, as the function under construction sees it."""
        for depth in reversed(range(len(self._names))):
            if name in self._names[depth]:
                value = self._names[depth][name]
                for frame in self._frames:
                    if depth < frame.base:
                        value = frame.capture(value)
                return value
        return None

    @contextlib.contextmanager
    def graph(self) -> Iterator[None]:
        """Walk a subgraph as a part of the function under construction."""
        self._names.append({})
        try:
            yield
        finally:
            self._names.pop()

    @contextlib.contextmanager
    def function(self, frame: Frame) -> Iterator[None]:
        """Walk a subgraph as a function of its own, inside of the one under construction."""
        self._frames.append(frame)
        try:
            with self.graph():
                yield
        finally:
            self._frames.pop()

    @property
    def depth(self) -> int:
        """How many graphs are being walked."""
        return len(self._names)
