"""Operators that no compiled model can have, each with the reason."""

from __future__ import annotations

from typing import NoReturn

from moonpoly.compiler.frontend.converters.registry import converts
from moonpoly.compiler.frontend.graph.context import Context


@converts(
    *("Bernoulli", "Multinomial"),
    *("RandomNormal", "RandomNormalLike", "RandomUniform", "RandomUniformLike"),
)
def draws_at_random(ctx: Context) -> NoReturn:
    """Refuse what gives other values at each call: nothing could say whether they are right."""
    ctx.unsupported("it draws numbers at random; give them to the model as an input")


@converts("ImageDecoder")
def decodes_files(ctx: Context) -> NoReturn:
    """Refuse to read the formats of image files."""
    ctx.unsupported("it decodes image files; decode them before the model and give it the pixels")
