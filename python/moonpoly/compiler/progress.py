"""How a long compilation says how far it is."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

# Called with a step's name, how many of its parts are done and how many there are. A step may begin
# again: an import does when it has learned of equal dimensions.
OnProgress: TypeAlias = Callable[[str, int, int], None]


def silent(_step: str, _done: int, _total: int) -> None:
    """Say nothing."""
