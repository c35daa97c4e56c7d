"""The JSON document that a compiled model carries, and the Relax function that returns it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import numpy as np
import tvm
from tvm import relax

from moonpoly import config
from moonpoly.compiler.frontend import ImportedModel
from moonpoly.compiler.sites import SiteTable
from moonpoly.target import Target

# The version of the document's layout; the runtime refuses another.
SCHEMA = 1
FUNCTION = "moonpoly_metadata"
# A number follows.
DEFAULT = "moonpoly_default_"


def model_metadata(
    model: ImportedModel,
    table: SiteTable,
    target: Target,
    artifacts: Mapping[str, Mapping[str, Any]],
    dim_hints: Mapping[str, tuple[int, int]],
    limits: Mapping[str, int],
) -> dict[str, Any]:
    """Return what the runtime and ``moonpoly inspect`` need to know of a model.

    Parameters
    ----------
    artifacts
        Workload key → the manifest of the artifact that its call sites use.
    dim_hints
        Symbolic dimension → the range that the user expects.
    limits
        Symbol of the Relax function → the largest size that the model allows.
    """
    return {
        "schema": SCHEMA,
        "moonpoly": config.package_version(),
        "tvm": tvm.__version__,
        "target": target.to_dict(),
        "digest": table.digest,
        "name": model.name,
        "inputs": [spec.to_dict() for spec in model.inputs],
        # Input → the function that returns its value where a run gives none.
        "defaults": {name: f"{DEFAULT}{index}" for index, name in enumerate(model.defaults)},
        "constants": list(model.constants),
        "outputs": [spec.to_dict() for spec in model.outputs],
        "constraints": [list(pair) for pair in model.conditions.equal],
        # A dimension that is read from data has no name, and its limit is checked where it is used.
        "limits": {
            **(model.conditions.at_most or {}),
            **{
                model.dim_names[symbol]: limit
                for symbol, limit in limits.items()
                if symbol in model.dim_names
            },
        },
        "stated": dict(model.conditions.stated or {}),
        "least": dict(model.conditions.at_least or {}),
        "dim_hints": {name: list(bounds) for name, bounds in dim_hints.items()},
        "report": [entry.to_dict() for entry in table.report],
        "artifacts": {key: dict(manifest) for key, manifest in artifacts.items()},
        "sites": [site.to_dict() for site in table.sites],
    }


def add_metadata(mod: tvm.IRModule, metadata: Mapping[str, Any]) -> tvm.IRModule:
    """Return ``mod`` with the function that returns ``metadata`` as a tensor of bytes."""
    text = json.dumps(metadata, separators=(",", ":"), ensure_ascii=False)
    data = np.frombuffer(text.encode(), dtype=np.uint8)
    return _add_constant(mod, FUNCTION, data)


def add_defaults(mod: tvm.IRModule, defaults: Mapping[str, np.ndarray]) -> tvm.IRModule:
    """Return ``mod`` with functions that return the values of inputs that a run leaves out."""
    for index, value in enumerate(defaults.values()):
        mod = _add_constant(mod, f"{DEFAULT}{index}", value)
    return mod


def _add_constant(mod: tvm.IRModule, name: str, value: np.ndarray) -> tvm.IRModule:
    builder = relax.BlockBuilder()
    with builder.function(name, []):
        builder.emit_func_output(relax.const(value, value.dtype.name))
    mod = tvm.IRModule(dict(mod.functions_items()), attrs=mod.attrs)
    mod[name] = builder.get()[name].with_attr("global_symbol", name)
    return mod
