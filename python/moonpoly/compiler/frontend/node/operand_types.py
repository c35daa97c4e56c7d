"""What the standard and the model say of element types."""

from __future__ import annotations

from typing import TYPE_CHECKING

import onnx

from moonpoly.compiler.frontend.model.standard import formal_operand, schema_of
from moonpoly.error import ModelError

if TYPE_CHECKING:
    from moonpoly.compiler.frontend.graph.context import Context

# The standard's names of types that NumPy calls otherwise.
_NAMES = {"float32": "float", "float64": "double", "object": "string"}


def wrong_type(ctx: Context) -> str | None:
    """Return which operand is of a type that the operator doesn't take, or None.

    Asked when a converter has failed: it names the tensor, where the failure names an expression.
    """
    schema = schema_of(ctx.op, ctx.opset, ctx.domain)
    if schema is None:
        return None
    allowed = {each.type_param_str: each.allowed_type_strs for each in schema.type_constraints}
    seen: dict[str, tuple[str, str]] = {}
    for index, name in enumerate(ctx.node.input):
        formal = formal_operand(schema, index)
        if not ctx.has_input(index) or formal is None:
            continue
        dtype = ctx.dtype(index)
        spelled = f"tensor({_NAMES.get(dtype, dtype)})"
        types = allowed.get(formal.type_str, [formal.type_str])
        if all(each.startswith("tensor(") for each in types) and spelled not in types:
            return f"{name!r} is {dtype}, which its operand {formal.name!r} can't be"
        first = seen.setdefault(formal.type_str, (name, dtype))
        if formal.is_homogeneous and first[1] != dtype:
            return f"{first[0]!r} is {first[1]} and {name!r} is {dtype}; they must be of one type"
    return None


def check_result(declared: onnx.ValueInfoProto, dtype: str) -> None:
    """Check that an output of the graph is of the type that is declared for it, if one is.

    Raises
    ------
    ModelError
        Naming the output and both types.
    """
    element = declared.type.tensor_type.elem_type
    if not element:
        return
    wanted = onnx.helper.tensor_dtype_to_np_dtype(element).name
    if wanted != dtype:
        raise ModelError(
            f"output {declared.name!r} is declared as {wanted}, but the node that makes it gives "
            f"{dtype}; export the model again"
        )
