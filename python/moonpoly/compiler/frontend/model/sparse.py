"""Weights that a file holds by their entries that aren't zero."""

from __future__ import annotations

import numpy as np
import onnx

from moonpoly.compiler.frontend.model.graphs import subgraphs_of


def fill_sparse(graph: onnx.GraphProto) -> None:
    """Write the sparse initialisers of a graph, in itself, and of its subgraphs as dense ones."""
    for sparse in graph.sparse_initializer:
        values = onnx.numpy_helper.to_array(sparse.values)
        places = onnx.numpy_helper.to_array(sparse.indices)
        dense = np.zeros(tuple(sparse.dims), values.dtype)
        if places.ndim == 1:
            # Positions in the tensor laid out as one row.
            dense.reshape(-1)[places] = values
        else:
            dense[tuple(places.T)] = values
        graph.initializer.append(onnx.numpy_helper.from_array(dense, sparse.values.name))
    del graph.sparse_initializer[:]
    for node in graph.node:
        for subgraph in subgraphs_of(node):
            fill_sparse(subgraph)
