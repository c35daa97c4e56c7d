"""What a compiled model says of itself: inputs, outputs, target, versions and call sites."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from moonpoly.error import ArtifactError
from moonpoly.runtime.dim_expr import DimExpr

SCHEMA = 1


@dataclass(frozen=True)
class TensorSpec:
    """Name, dtype and shape of an input or output; a dimension is a number or a symbol's name."""

    name: str
    dtype: str
    shape: tuple[int | str, ...]

    def __str__(self) -> str:
        dims = ", ".join(str(dim) for dim in self.shape)
        return f"{self.name}: {self.dtype}[{dims}]"


@dataclass(frozen=True)
class ModelMetadata:
    """The parsed metadata of a compiled model.

    Parameters
    ----------
    constraints
        Pairs of expressions of dimensions that must be equal at run time.
    limits
        Symbol's name → largest size that the model's own tables allow.
    least
        Symbol's name → smallest size that the model makes sense of.
    stated
        Expression that an input's dimension is, as the ONNX file has it → what it says.
    raw
        The whole JSON document, for printing.
    defaults
        Input → the function of the model that returns its value where a run gives none.
    constants
        Inputs of the ONNX file that are constants of the model.
    """

    name: str
    digest: str
    target: str
    features: tuple[str, ...]
    inputs: tuple[TensorSpec, ...]
    outputs: tuple[TensorSpec, ...]
    constraints: tuple[tuple[DimExpr, DimExpr], ...]
    limits: tuple[tuple[str, int], ...]
    least: tuple[tuple[str, int], ...]
    raw: Mapping[str, Any] = field(repr=False, hash=False, compare=False)
    stated: Mapping[str, DimExpr] = field(default_factory=dict, hash=False)
    defaults: Mapping[str, str] = field(default_factory=dict, hash=False)
    constants: tuple[str, ...] = ()

    @staticmethod
    def parse(text: str, origin: str, version: str) -> ModelMetadata:
        """Parse and check the JSON ``text`` found in the file ``origin``.

        Parameters
        ----------
        version
            The version of this package; a model of another one is refused.

        Raises
        ------
        ArtifactError
            If it is not MoonPoly's, or of another schema or version.
        """
        try:
            raw = json.loads(text)
            schema, made_by = raw["schema"], raw["moonpoly"]
        except (ValueError, KeyError, TypeError) as err:
            raise ArtifactError(f"{origin} holds no MoonPoly metadata; compile it again") from err
        if schema != SCHEMA or made_by != version:
            raise ArtifactError(
                f"{origin} was compiled by moonpoly {made_by} (schema {schema}), this is "
                f"{version} (schema {SCHEMA}); compile it again"
            )
        try:
            return ModelMetadata(
                name=str(raw["name"]),
                digest=str(raw["digest"]),
                target=str(raw["target"]["name"]),
                features=tuple(raw["target"]["features"]),
                inputs=tuple(_spec(item) for item in raw["inputs"]),
                outputs=tuple(_spec(item) for item in raw["outputs"]),
                constraints=tuple((left, right) for left, right in raw.get("constraints", ())),
                limits=tuple((str(dim), int(most)) for dim, most in raw.get("limits", {}).items()),
                least=tuple((str(dim), int(n)) for dim, n in raw.get("least", {}).items()),
                stated=dict(raw.get("stated", {})),
                defaults=dict(raw.get("defaults", {})),
                constants=tuple(raw.get("constants", ())),
                raw=raw,
            )
        except (KeyError, TypeError, ValueError) as err:
            raise ArtifactError(
                f"{origin} has damaged metadata ({type(err).__name__}: {err}); compile it again"
            ) from err

    @property
    def symbols(self) -> tuple[str, ...]:
        """The symbolic dimensions of the inputs, in order of appearance."""
        names = (dim for spec in self.inputs for dim in spec.shape if isinstance(dim, str))
        return tuple(dict.fromkeys(names))


def _spec(item: Mapping[str, Any]) -> TensorSpec:
    shape = tuple(dim if isinstance(dim, str) else int(dim) for dim in item["shape"])
    return TensorSpec(name=str(item["name"]), dtype=str(item["dtype"]), shape=shape)
