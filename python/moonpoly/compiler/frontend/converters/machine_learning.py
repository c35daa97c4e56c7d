"""Operators of ``ai.onnx.ml`` that take and give numbers: selections, thresholds and trees."""

from __future__ import annotations

from typing import Any

import numpy as np
from tvm import relax

from moonpoly.compiler.frontend.converters.indices import checked_indices
from moonpoly.compiler.frontend.converters.packed_call import call_packed
from moonpoly.compiler.frontend.converters.registry import converts
from moonpoly.compiler.frontend.converters.sizes import known_shape
from moonpoly.compiler.frontend.graph.context import Context

DOMAIN = "ai.onnx.ml"
_SUM = 1
_NO_TRANSFORM = 0
# The standard's numbers of the comparisons that lead to a node's true branch.
_MODES = ("<=", "<", ">=", ">", "==", "!=", "in")


@converts("ArrayFeatureExtractor", domain=DOMAIN)
def array_feature_extractor(ctx: Context) -> relax.Expr:
    """Select entries of the last axis."""
    shape = known_shape(ctx, 0)
    places = ctx.emit(relax.op.reshape(checked_indices(ctx, 1, shape[-1:]), [-1]))
    found = ctx.emit(relax.op.take(ctx.input(0), places, axis=len(shape) - 1))
    if len(shape) > 1:
        return found
    return ctx.emit(relax.op.expand_dims(found, [0]))


@converts("Binarizer", domain=DOMAIN)
def binarizer(ctx: Context) -> relax.Expr:
    """Return 1 where an entry is above the threshold, else 0."""
    dtype = ctx.dtype(0)
    threshold = relax.const(ctx.attrs.get("threshold", 0.0), dtype)
    return ctx.emit(relax.op.astype(ctx.emit(relax.op.greater(ctx.input(0), threshold)), dtype))


@converts("TreeEnsemble", domain=DOMAIN)
def tree_ensemble(ctx: Context) -> relax.Expr:
    """Add up, for each row and target, the weights of the leaves that the trees lead to."""
    if ctx.attrs.get("aggregate_function", _SUM) != _SUM:
        ctx.unsupported("it takes another aggregate than the sum of its trees")
    if ctx.attrs.get("post_transform", _NO_TRANSFORM) != _NO_TRANSFORM:
        ctx.unsupported("it transforms its results")
    rows, dtype = known_shape(ctx, 0), ctx.dtype(0)
    if len(rows) != 2 or dtype not in ("float32", "float64"):
        ctx.unsupported(f"its input is {dtype} of rank {len(rows)}, expected a matrix of floats")
    modes = np.asarray(ctx.attrs["nodes_modes"], np.int64)
    nodes = np.stack(
        [
            np.asarray(ctx.attrs["nodes_featureids"], np.int64),
            modes,
            *(
                np.asarray(ctx.attrs[f"nodes_{branch}{kind}"], np.int64)
                for branch in ("true", "false")
                for kind in ("nodeids", "leafs")
            ),
            np.asarray(ctx.attrs.get("nodes_missing_value_tracks_true", 0 * modes), np.int64),
            *_members(ctx, modes),
        ],
        axis=1,
    )
    targets = int(ctx.attrs["n_targets"])
    tables = (
        nodes,
        np.asarray(ctx.attrs["nodes_splits"], np.float64),
        np.asarray(ctx.attrs.get("membership_values", [0.0]), np.float64),
        np.asarray(ctx.attrs["leaf_targetids"], np.int64),
        np.asarray(ctx.attrs["leaf_weights"], np.float64),
        np.asarray(ctx.attrs["tree_roots"], np.int64),
    )
    constants = [relax.const(table, table.dtype.name) for table in tables]
    args: list[Any] = [ctx.input(0), *constants, targets]
    return call_packed(ctx, "moonpoly.op.tree_ensemble", args, [[rows[0], targets]], [dtype])[0]


def _members(ctx: Context, modes: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return where each node's members begin and end; the lists are set apart by NaNs."""
    if modes.max(initial=0) >= len(_MODES):
        ctx.unsupported(f"it compares by mode {modes.max()}; 0 to {len(_MODES) - 1} are known")
    begins, ends = np.zeros_like(modes), np.zeros_like(modes)
    values = np.asarray(ctx.attrs.get("membership_values", []), np.float64)
    stops = np.flatnonzero(np.isnan(values))
    listed = np.flatnonzero(modes == _MODES.index("in"))
    if len(stops) < len(listed):
        ctx.unsupported(f"{len(listed)} nodes look into lists, of which {len(stops)} are given")
    first = 0
    for node, stop in zip(listed, stops, strict=False):
        begins[node], ends[node] = first, stop
        first = int(stop) + 1
    return begins, ends
