"""What the importer knows of one tensor of the graph: its value, its elements, or an expression."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import tvm
import tvm_ffi
from tvm import relax, tirx

# An integer that is known, or an expression of symbolic dimensions.
Integer: TypeAlias = "int | tvm.ir.Expr"


@dataclass(frozen=True)
class Outline:
    """What is known of a tensor before run time, or of the tensors of a sequence.

    Parameters
    ----------
    dtype
        Element type by NumPy's name; empty where nothing is known of a sequence's tensors.
    dims
        Sizes, None for one that isn't known; None where the rank isn't.
    is_sequence
        Whether it is of the tensors of a sequence.
    """

    dtype: str
    dims: tuple[Integer | None, ...] | None
    is_sequence: bool = False

    @property
    def type(self) -> relax.Type:
        """The type in Relax, with the sizes if all are known."""
        if self.is_sequence:
            return relax.AnyType()
        if self.dims is None:
            return relax.TensorType(dtype=self.dtype, ndim=-1)
        if None in self.dims:
            return relax.TensorType(dtype=self.dtype, ndim=len(self.dims))
        return relax.TensorType(list(self.dims), self.dtype)


@dataclass(eq=False)
class Value:
    """One tensor of the graph while it is imported, in one of three forms.

    Parameters
    ----------
    array
        The value, where it is known at compile time.
    elements
        An object array of numbers and expressions of symbolic dimensions: the value of a tensor
        that is computed from shapes.
    expr
        The tensor in Relax; what is not a tensor (a sequence, an optional) as well.
    dtype
        The element type of ``elements``, by NumPy's name.
    item
        What is known of its tensors, if it is a sequence.
    """

    array: np.ndarray | None = None
    elements: np.ndarray | None = None
    expr: relax.Expr | None = None
    dtype: str = ""
    item: Outline | None = None

    @staticmethod
    def of_elements(elements: Any, dtype: str) -> Value:
        """Make a value of numbers and expressions; one without expressions becomes an array."""
        if not isinstance(elements, np.ndarray):
            boxed = np.empty((), dtype=object)
            boxed[()] = elements
            elements = boxed
        if any(is_symbolic(item) for item in elements.flat):
            return Value(elements=elements, dtype=dtype)
        return Value(array=elements.astype(dtype))

    @property
    def is_lost(self) -> bool:
        """Whether the node that makes the tensor could not be imported."""
        return self.array is None and self.elements is None and self.expr is None

    def known_elements(self) -> np.ndarray | None:
        """Return the elements as an object array, or None where they depend on data."""
        if self.elements is not None:
            return self.elements
        return None if self.array is None else self.array.astype(object)


def is_symbolic(item: Any) -> bool:
    """Return whether an element is an expression of symbolic dimensions."""
    return not isinstance(item, int | float | np.generic)


def substitute(dim: Integer, images: Mapping[tirx.Var, tvm.ir.Expr]) -> Integer:
    """Return a dimension with symbols replaced; one without symbols becomes a number."""
    if not is_symbolic(dim) or not images:
        return dim
    replaced = tvm_ffi.structural_map(dim, (tirx.Var, lambda var: images.get(var, var)))
    simple = tvm.sym.Analyzer().simplify(replaced)
    return int(simple.value) if isinstance(simple, tirx.IntImm) else simple
