"""From a checked ONNX model to a Relax module whose bindings carry the ONNX node names."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import onnx
import tvm
from tvm import relax

from moonpoly.compiler.frontend.dimensions.conditions import Conditions, find_conditions
from moonpoly.compiler.frontend.dimensions.dims import (
    NamedInputs,
    TensorSpec,
    make_params,
    name_dims,
)
from moonpoly.compiler.frontend.dimensions.equalities import Equalities, Equality
from moonpoly.compiler.frontend.model.load import LoadedModel, ModelSource, load_model
from moonpoly.compiler.frontend.model.open_inputs import open_initialisers, overridable
from moonpoly.compiler.frontend.model.standard import opsets_of
from moonpoly.compiler.frontend.walk.stand_ins import StandIns
from moonpoly.compiler.frontend.walk.support import check_opset, check_types, unknown_operators
from moonpoly.compiler.frontend.walk.walk import GraphWalk
from moonpoly.compiler.progress import OnProgress, silent
from moonpoly.error import MoonPolyError, UnsupportedError


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
    conditions
        What the graph asks of the inputs' dimensions.
    defaults
        Input → the value that it has where a run gives none.
    constants
        Initialisers that the file lists as inputs, and that are constants here.
    """

    module: tvm.IRModule
    name: str
    digest: str
    inputs: tuple[TensorSpec, ...]
    outputs: tuple[TensorSpec, ...]
    dim_names: dict[str, str]
    conditions: Conditions = field(default_factory=Conditions)
    defaults: Mapping[str, np.ndarray] = field(default_factory=dict)
    constants: tuple[str, ...] = ()


def import_model(
    source: ModelSource,
    fixed_dims: Mapping[str, int] | None = None,
    open_inputs: Sequence[str] = (),
    on_progress: OnProgress = silent,
) -> ImportedModel:
    """Load, check and import an ONNX model.

    Parameters
    ----------
    fixed_dims
        Symbolic dimension → the only size that it is to have.
    open_inputs
        Initialisers, listed as inputs too, that a run may give another value.
    on_progress
        Told when the file is read, and of each node.

    Raises
    ------
    InputError
        If ``fixed_dims`` names no symbolic dimension of the model, or ``open_inputs`` no
        initialiser that is listed as an input.
    ModelError
        If the source is not a valid ONNX model.
    UnsupportedError
        If an operator, the form in which it is used, or the type of an input or output can't be
        imported.
    StorageError
        If the file can't be read.
    """
    on_progress("reading", 0, 1)
    loaded = load_model(source)
    check_opset(loaded.proto)
    defaults = open_initialisers(loaded.proto.graph, open_inputs)
    check_types(loaded.proto.graph)
    named, sizes = name_dims(loaded.proto).fixed(fixed_dims or {})
    module, learned, positive = _to_relax(loaded.proto, sizes, on_progress)
    outputs = _output_specs(loaded, module, named)
    dims = (
        pair
        for spec, param in zip(named.specs, module["main"].params, strict=True)
        for pair in zip(spec.shape, param.ty.shape.values, strict=True)
    )
    return ImportedModel(
        module=module,
        name=loaded.name,
        digest=loaded.digest,
        inputs=named.specs,
        outputs=outputs,
        dim_names=named.dim_names,
        conditions=find_conditions(learned, positive, named.dim_names, dims),
        defaults=defaults,
        constants=tuple(overridable(loaded.proto.graph)),
    )


def read_ends(source: ModelSource) -> tuple[list[TensorSpec], list[TensorSpec]]:
    """Return a model's inputs and outputs in its own words, whether it can be imported or not.

    Raises as :func:`import_model` does where the model is not valid.
    """
    proto = load_model(source).proto
    inputs = name_dims(proto).specs
    outputs = [
        TensorSpec(
            value.name,
            onnx.helper.tensor_dtype_to_np_dtype(value.type.tensor_type.elem_type).name,
            _stated_shape(value),
        )
        for value in proto.graph.output
        if value.type.HasField("tensor_type")
    ]
    return list(inputs), outputs


def _to_relax(
    proto: onnx.ModelProto, fixed: Mapping[str, int], on_progress: OnProgress
) -> tuple[tvm.IRModule, list[Equality], list[tvm.tirx.Var]]:
    equalities = Equalities(make_params(proto.graph), fixed)
    unknown, stand_ins = unknown_operators(proto), StandIns(proto)
    while True:
        equalities.has_grown = False
        walk = GraphWalk(opsets_of(proto), equalities, unknown, stand_ins, on_progress)
        try:
            module = walk.run(proto.graph)
        except MoonPolyError:
            # What a walk learns on its way may be what it lacked.
            if not equalities.has_grown:
                raise
        if not equalities.has_grown:
            return module, equalities.learned, walk.symbols.positive


def _output_specs(
    loaded: LoadedModel, module: tvm.IRModule, named: NamedInputs
) -> tuple[TensorSpec, ...]:
    ty = module["main"].ret_ty
    fields = list(ty.fields) if isinstance(ty, relax.TupleType) else [ty]
    specs = []
    for value, result in zip(loaded.proto.graph.output, fields, strict=True):
        if not isinstance(result, relax.TensorType):
            raise UnsupportedError(f"output {value.name!r} is not a tensor but {result}")
        specs.append(
            TensorSpec(
                name=value.name,
                dtype=str(result.dtype),
                shape=_shape_of(result, value, named.dim_names),
            )
        )
    return tuple(specs)


def _shape_of(
    field: relax.TensorType, value: onnx.ValueInfoProto, dim_names: dict[str, str]
) -> tuple[int | str, ...]:
    if field.shape is None or not isinstance(field.shape, relax.ShapeExpr):
        # The rank or sizes depend on data: the ONNX file's own words are the best there are.
        return _stated_shape(value)
    return tuple(
        int(dim) if isinstance(dim, tvm.tirx.IntImm) else _spell(dim, dim_names)
        for dim in field.shape.values
    )


def _stated_shape(value: onnx.ValueInfoProto) -> tuple[int | str, ...]:
    dims = value.type.tensor_type.shape.dim
    return tuple(dim.dim_value or dim.dim_param or "?" for dim in dims)


def _spell(expr: tvm.tirx.Expr, dim_names: dict[str, str]) -> str:
    """Write a dimension's expression with the names of the ONNX file."""
    text = re.sub(r"T\.int\d+\((-?\d+)\)", r"\1", str(expr))
    return re.sub(r"[A-Za-z_]\w*", lambda match: dim_names.get(match[0], match[0]), text)
