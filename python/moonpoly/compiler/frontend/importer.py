"""From a checked ONNX model to a Relax module whose bindings carry the ONNX node names."""

from __future__ import annotations

import contextlib
import io
import re
import warnings
from dataclasses import dataclass

import onnx
import tvm
from tvm import relax
from tvm.relax.frontend.onnx.onnx_frontend import ONNXGraphImporter

from moonpoly.compiler.frontend.converters import find_converter
from moonpoly.compiler.frontend.dims import NamedInputs, TensorSpec, name_dims
from moonpoly.compiler.frontend.load import LoadedModel, ModelSource, load_model
from moonpoly.compiler.frontend.support import check_supported, node_label
from moonpoly.error import ModelError, UnsupportedError


@dataclass(frozen=True)
class ImportedModel:
    """A model in Relax.

    Parameters
    ----------
    module
        One function ``main`` in one dataflow block. Its parameters are the model's inputs in
        order; weights are constants; a binding is named after the ONNX node that it came from.
    name, digest
        As in :class:`LoadedModel`.
    inputs, outputs
        Names, dtypes and shapes with the names of the ONNX file.
    dim_names
        Symbol in the Relax function → symbolic dimension's name in the ONNX file.
    """

    module: tvm.IRModule
    name: str
    digest: str
    inputs: tuple[TensorSpec, ...]
    outputs: tuple[TensorSpec, ...]
    dim_names: dict[str, str]


def import_model(source: ModelSource) -> ImportedModel:
    """Load, check and import an ONNX model.

    Raises
    ------
    ModelError
        If the source is not a valid ONNX model.
    UnsupportedError
        If an operator, or the form in which it is used, can't be imported.
    StorageError
        If the file can't be read.
    """
    loaded = load_model(source)
    check_supported(loaded.proto)
    named = name_dims(loaded.proto)
    module = _to_relax(loaded.proto)
    outputs = _output_specs(loaded, module, named)
    return ImportedModel(
        module=module,
        name=loaded.name,
        digest=loaded.digest,
        inputs=named.specs,
        outputs=outputs,
        dim_names=named.dim_names,
    )


# What TVM's converters raise when they meet a form of an operator that they don't know.
_CONVERTER_ERRORS = (
    ArithmeticError,
    AssertionError,
    AttributeError,
    LookupError,
    RuntimeError,
    TypeError,
    ValueError,
)


# Names a function's result, whose node has named a binding before it.
RESULT_SUFFIX = ":result"


class _NodeError(Exception):
    """Carries the node that could not be converted out of the importer."""


class _NamingBuilder(relax.BlockBuilder):
    """A block builder that names the function's result after the node that makes it."""

    output_name = ""

    def emit_output(self, output: relax.Expr, name_hint: str = "") -> relax.Var:
        return super().emit_output(output, name_hint or self.output_name)


class _NamingImporter(ONNXGraphImporter):
    """TVM's importer, with each node's result bound to a variable of the node's name."""

    def __init__(self) -> None:
        super().__init__(shape_dict=None, dtype_dict=None, sanitize=False)
        self.bb = _NamingBuilder()

    def _convert_operator(
        self, op_name: str, inputs: list[relax.Expr], attrs: dict, opset: int
    ) -> relax.Expr:
        name = attrs["tvm_custom"]["name"]
        # The last node that is converted makes the graph's result, or its name does no harm.
        self.bb.output_name = name + RESULT_SUFFIX
        converter = find_converter(op_name)
        try:
            expr = converter(self.bb, inputs, attrs, opset) if converter else None
            if expr is None:
                expr = super()._convert_operator(op_name, inputs, attrs, opset)
            else:
                expr = self.bb.normalize(expr)
        except _CONVERTER_ERRORS as err:
            raise _NodeError(f"{op_name} (node {name!r}, opset {opset}): {_reason(err)}") from err
        is_call = isinstance(expr, tvm.ir.Call) and isinstance(expr.ty, relax.TensorType)
        return self.bb.emit(expr, name_hint=name) if is_call else expr


def _to_relax(proto: onnx.ModelProto) -> tvm.IRModule:
    for node in proto.graph.node:
        node.name = node_label(node)
    opset = next(e.version for e in proto.opset_import if e.domain in ("", "ai.onnx"))
    importer = _NamingImporter()
    noise = io.StringIO()
    try:
        # The converters warn and print about what is checked, or reported as an error, here.
        with warnings.catch_warnings(), contextlib.redirect_stdout(noise):
            warnings.simplefilter("ignore")
            return importer.from_onnx(proto.graph, opset)
    except _NodeError as err:
        raise UnsupportedError(f"can't import operator {err}") from err
    except _CONVERTER_ERRORS as err:
        raise UnsupportedError(f"can't import the graph: {_reason(err)}") from err


def _reason(err: Exception) -> str:
    lines = [line.strip() for line in str(err).splitlines() if line.strip()]
    return lines[0] if lines else type(err).__name__


def _output_specs(
    loaded: LoadedModel, module: tvm.IRModule, named: NamedInputs
) -> tuple[TensorSpec, ...]:
    ty = module["main"].ret_ty
    fields = list(ty.fields) if isinstance(ty, relax.TupleType) else [ty]
    specs = []
    for value, field in zip(loaded.proto.graph.output, fields, strict=True):
        if not isinstance(field, relax.TensorType):
            raise ModelError(f"output {value.name!r} is not a tensor but {field}")
        specs.append(
            TensorSpec(
                name=value.name,
                dtype=str(field.dtype),
                shape=_shape_of(field, value, named.dim_names),
            )
        )
    return tuple(specs)


def _shape_of(
    field: relax.TensorType, value: onnx.ValueInfoProto, dim_names: dict[str, str]
) -> tuple[int | str, ...]:
    if field.shape is None or not isinstance(field.shape, relax.ShapeExpr):
        # The rank or sizes depend on data: the ONNX file's own words are the best there are.
        dims = value.type.tensor_type.shape.dim
        return tuple(dim.dim_value or dim.dim_param or "?" for dim in dims)
    return tuple(
        int(dim) if isinstance(dim, tvm.tirx.IntImm) else _spell(dim, dim_names)
        for dim in field.shape.values
    )


def _spell(expr: tvm.tirx.Expr, dim_names: dict[str, str]) -> str:
    """Write a dimension's expression with the names of the ONNX file."""
    text = re.sub(r"T\.int\d+\((-?\d+)\)", r"\1", str(expr))
    return re.sub(r"[A-Za-z_]\w*", lambda match: dim_names.get(match[0], match[0]), text)
