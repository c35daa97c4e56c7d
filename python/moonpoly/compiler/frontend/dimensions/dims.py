"""Giving every dimension and input a name that the importer keeps, and remembering the model's."""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

import onnx
import tvm
from tvm import relax

from moonpoly.error import InputError, ModelError

_IDENTIFIER = re.compile(r"[A-Za-z_]\w*")
# Some exporters write "?" or "-1" where they know no name.
_NAMING = re.compile(r"[^\W\d]")
_OPERATOR = re.compile(r"\+|-|\*|//|/")
_OPERATIONS: dict[str, Callable[[tvm.ir.Expr, tvm.ir.Expr], tvm.ir.Expr]] = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "/": tvm.tirx.floordiv,
    "//": tvm.tirx.floordiv,
}

Dim = int | str


@dataclass(frozen=True)
class TensorSpec:
    """An input or output as the model's author named it.

    Parameters
    ----------
    name
        The tensor's name in the ONNX graph.
    dtype
        NumPy's name of the element type.
    shape
        Sizes; a string is a symbolic dimension or an expression of such.
    """

    name: str
    dtype: str
    shape: tuple[Dim, ...]

    def to_dict(self) -> dict[str, object]:
        """Return the form kept in a model's metadata."""
        return {"name": self.name, "dtype": self.dtype, "shape": list(self.shape)}


@dataclass(frozen=True)
class NamedInputs:
    """The model's inputs after naming.

    Parameters
    ----------
    specs
        The inputs in order, with the names of the ONNX file.
    dim_names
        Symbol in the Relax function → symbolic dimension's name in the ONNX file.
    """

    specs: tuple[TensorSpec, ...]
    dim_names: dict[str, str]

    def fixed(self, sizes: Mapping[str, int]) -> tuple[NamedInputs, dict[str, int]]:
        """Give dimensions the only size that they are to have.

        Returns
        -------
        inputs
            The inputs with these sizes.
        symbols
            Symbol → its size.

        Raises
        ------
        InputError
            If there is no such dimension, or the size is less than 1.
        """
        symbols = {name: symbol for symbol, name in self.dim_names.items()}
        for name, size in sizes.items():
            if name not in symbols:
                known = ", ".join(sorted(symbols)) or "none, all sizes are fixed"
                raise InputError(f"no symbolic dimension {name!r} in the model; it has {known}")
            if size < 1:
                raise InputError(f"dimension {name!r} must be at least 1, got {size}")
        specs = tuple(
            replace(spec, shape=tuple(sizes.get(str(dim), dim) for dim in spec.shape))
            for spec in self.specs
        )
        open_dims = {s: name for s, name in self.dim_names.items() if name not in sizes}
        return NamedInputs(specs, open_dims), {symbols[name]: n for name, n in sizes.items()}


def name_dims(proto: onnx.ModelProto) -> NamedInputs:
    """Rewrite ``proto``'s inputs in place so that every unknown dimension has its own symbol.

    The importer gives all unnamed dimensions one variable, which forces them to be equal, and
    takes -1 literally. Dimensions of equal name stay equal, but for names that are none: "?" and
    "-1". An input whose initialiser is in the graph is a constant, so it is not listed.

    Raises
    ------
    ModelError
        If an input is not a tensor, or its rank is unknown.
    """
    constants = {tensor.name for tensor in proto.graph.initializer}
    inputs = [value for value in proto.graph.input if value.name not in constants]
    for value in inputs:
        for dim in value.type.tensor_type.shape.dim:
            if dim.dim_param and not _NAMING.search(dim.dim_param):
                dim.ClearField("dim_param")
    plain = {
        dim.dim_param
        for value in inputs
        for dim in value.type.tensor_type.shape.dim
        if _names(dim.dim_param) and not _OPERATOR.search(dim.dim_param)
    }
    symbols = _Symbols()
    # Plain names take their symbols first, so that expressions and unnamed ones give way.
    for name in sorted(plain):
        symbols.of(name)
    specs = [_name_input(value, plain, symbols) for value in inputs]
    return NamedInputs(specs=tuple(specs), dim_names=symbols.names)


def make_params(graph: onnx.GraphProto) -> list[relax.Var]:
    """Return a parameter for each input of a graph that :func:`name_dims` has gone over."""
    constants = {tensor.name for tensor in graph.initializer}
    symbols: dict[str, tvm.tirx.Var] = {}
    return [_make_param(value, symbols) for value in graph.input if value.name not in constants]


def _make_param(value: onnx.ValueInfoProto, symbols: dict[str, tvm.tirx.Var]) -> relax.Var:
    tensor = value.type.tensor_type
    dims = [
        parse_dim(dim.dim_param, symbols)
        if dim.dim_param
        else tvm.tirx.IntImm("int64", dim.dim_value)
        for dim in tensor.shape.dim
    ]
    dtype = onnx.helper.tensor_dtype_to_np_dtype(tensor.elem_type).name
    return relax.Var(value.name, relax.TensorType(dims, dtype))


def parse_dim(text: str, symbols: dict[str, tvm.tirx.Var]) -> tvm.ir.Expr:
    """Return the expression that a dimension's text spells; makes the symbols that are new.

    Operators are taken from left to right, as exporters write them: sums and products of names
    and numbers.
    """
    parts = re.split(f"({_OPERATOR.pattern})", text)
    result = _atom(parts[0], symbols)
    for sign, part in zip(parts[1::2], parts[2::2], strict=True):
        result = _OPERATIONS[sign](result, _atom(part, symbols))
    return result


def _atom(text: str, symbols: dict[str, tvm.tirx.Var]) -> tvm.ir.Expr:
    if text.isdecimal():
        return tvm.tirx.IntImm("int64", int(text))
    return symbols.setdefault(text, tvm.tirx.Var(text, "int64"))


def _name_input(value: onnx.ValueInfoProto, plain: set[str], symbols: _Symbols) -> TensorSpec:
    kind = value.type.WhichOneof("value")
    if kind != "tensor_type" or not value.type.tensor_type.HasField("shape"):
        what = "is not a tensor" if kind != "tensor_type" else "has no rank"
        raise ModelError(
            f"input {value.name!r} {what}; export the model with the input's rank and dtype"
        )
    tensor = value.type.tensor_type
    if tensor.elem_type == onnx.TensorProto.UNDEFINED:
        raise ModelError(f"input {value.name!r} has no dtype; export the model with it")
    shape: list[Dim] = []
    for axis, dim in enumerate(tensor.shape.dim):
        if dim.dim_value > 0:
            shape.append(dim.dim_value)
            continue
        text = dim.dim_param.replace(" ", "")
        atoms = [a for a in _OPERATOR.split(text) if a and not a.isdecimal()]
        if _OPERATOR.search(text) and atoms and all(atom in plain for atom in atoms):
            # An expression of other inputs' dimensions ("past+sequence") is checked at run time.
            dim.dim_param = "".join(
                symbols.of(part) if part in plain else part
                for part in re.split(f"({_OPERATOR.pattern})", text)
            )
            shape.append(text)
            continue
        name = dim.dim_param if _names(dim.dim_param) else _unnamed(value.name, axis, plain)
        dim.ClearField("dim_value")
        dim.dim_param = symbols.of(name)
        shape.append(name)
    dtype = onnx.helper.tensor_dtype_to_np_dtype(tensor.elem_type).name
    return TensorSpec(name=value.name, dtype=dtype, shape=tuple(shape))


def _names(text: str) -> bool:
    """Return whether a dimension's text is a name: "?" and the like stand for none."""
    return any(character.isalnum() for character in text)


def _unnamed(tensor: str, axis: int, taken: set[str]) -> str:
    name = f"{tensor}_dim{axis}"
    while name in taken:
        name += "_"
    return name


class _Symbols:
    """Identifiers for dimension names, unique and stable."""

    def __init__(self) -> None:
        self.names: dict[str, str] = {}
        self._by_name: dict[str, str] = {}

    def of(self, name: str) -> str:
        if name in self._by_name:
            return self._by_name[name]
        base = re.sub(r"\W", "_", name)
        if not _IDENTIFIER.fullmatch(base):
            base = f"dim_{base}"
        symbol, count = base, 1
        while symbol in self.names:
            symbol, count = f"{base}_{count}", count + 1
        self.names[symbol] = name
        self._by_name[name] = symbol
        return symbol
