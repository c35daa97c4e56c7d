"""What an exporter is given: a module, example inputs, and which of their axes stay open."""

from __future__ import annotations

from dataclasses import dataclass, field

import torch


@dataclass(frozen=True)
class Case:
    """A module ready to be exported.

    Attributes
    ----------
    module
        Takes the tensors of `inputs` in order, and returns a tensor or a tuple of tensors.
    inputs
        Example inputs by name.
    outputs
        Names of the outputs.
    axes
        Input → axis → name of the dimension that stays open there.
    """

    module: torch.nn.Module
    inputs: dict[str, torch.Tensor]
    outputs: tuple[str, ...]
    axes: dict[str, dict[int, str]] = field(default_factory=dict)


def tokens(vocabulary: int, *shape: int) -> torch.Tensor:
    """Random token ids below `vocabulary`."""
    return torch.randint(0, vocabulary, shape)
