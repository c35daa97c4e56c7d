"""Values in the place of those that can't be made, so that the nodes after them are looked at."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
import onnx
from google.protobuf.message import EncodeError
from tvm import relax

from moonpoly.compiler.frontend.node.values import Outline, Value
from moonpoly.compiler.frontend.symbolic.elements import as_expr

if TYPE_CHECKING:
    from moonpoly.compiler.frontend.walk.walk import GraphWalk


class StandIns:
    """Types that the standard, or the model's file, gives tensors of the main graph.

    Parameters
    ----------
    proto
        The model.
    """

    def __init__(self, proto: onnx.ModelProto) -> None:
        self._proto = proto

    def make(self, walk: GraphWalk, node: onnx.NodeProto) -> list[Value]:
        """Return values in the place of a node's results; lost ones where nothing is known."""
        return [self._value(walk, name) for name in node.output]

    def _value(self, walk: GraphWalk, name: str) -> Value:
        outline = self._outline(name)
        if outline is None or outline.dims is None:
            return Value()
        erased = relax.TensorType(dtype=outline.dtype, ndim=len(outline.dims))
        tensor = walk.bb.emit(relax.call_pure_packed("stand_in", ty_args=[erased]))
        dims = [walk.new_dim(f"{name}_dim") if dim is None else dim for dim in outline.dims]
        exact = relax.TensorType([as_expr(dim) for dim in dims], outline.dtype)
        return Value(expr=walk.bb.match_cast(tensor, exact))

    def _outline(self, name: str) -> Outline | None:
        """Return the type of a tensor of floats, or None.

        Integers are mostly sizes: without their values what reads them can't be imported either.
        """
        tensor = self._types.get(name)
        if tensor is None or not tensor.HasField("shape"):
            return None
        try:
            dtype = onnx.helper.tensor_dtype_to_np_dtype(tensor.elem_type)
        except KeyError:
            return None
        if not np.issubdtype(dtype, np.floating):
            return None
        return Outline(dtype.name, tuple(dim.dim_value or None for dim in tensor.shape.dim))

    @cached_property
    def _types(self) -> dict[str, onnx.TypeProto.Tensor]:
        try:
            graph = onnx.shape_inference.infer_shapes(self._proto).graph
        except (onnx.shape_inference.InferenceError, EncodeError, ValueError, RuntimeError):
            # A graph that contradicts itself, or of more bytes than a message may have.
            graph = self._proto.graph
        return {value.name: value.type.tensor_type for value in graph.value_info}
