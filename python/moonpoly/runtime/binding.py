"""Checks the given inputs against what the model takes, and lays them out as kernels want them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Any

import numpy as np

from moonpoly.error import InputError
from moonpoly.runtime.dim_expr import DimExpr, evaluate, names_in, spell
from moonpoly.runtime.metadata import ModelMetadata, TensorSpec

# What generated code may assume of the address of a tensor.
ALIGNMENT_BYTES = 64


def bind_inputs(metadata: ModelMetadata, given: Mapping[str, Any]) -> list[np.ndarray]:
    """Return the inputs in the model's order, compact and aligned; copied only where needed.

    Parameters
    ----------
    given
        NumPy arrays, or anything with ``__dlpack__`` on the CPU, by input name.

    Raises
    ------
    InputError
        For a name that is unknown or missing, or a wrong rank, dtype or shape.
    """
    _check_names([spec.name for spec in metadata.inputs], metadata.constants, given)
    bound: dict[int | str, tuple[int, str]] = {}
    arrays = []
    for spec in metadata.inputs:
        array = _as_array(spec, given[spec.name])
        _check(spec, array, bound)
        arrays.append(_lay_out(array))
    sizes = {dim: size for dim, (size, _) in bound.items()}
    _check_stated(metadata.stated, bound, sizes)
    check_constraints(metadata.constraints, sizes)
    check_limits(metadata.limits, sizes)
    check_least(metadata.least, sizes)
    return arrays


def check_constraints(
    constraints: Iterable[tuple[DimExpr, DimExpr]], sizes: Mapping[int | str, int]
) -> None:
    """Check that dimensions that must be equal are.

    Raises
    ------
    InputError
        Naming both dimensions and their sizes.
    """
    for left, right in constraints:
        got_left, got_right = evaluate(left, sizes), evaluate(right, sizes)
        if got_left is not None and got_right is not None and got_left != got_right:
            raise InputError(
                f"dimensions {spell(left)} and {spell(right)} must be equal, "
                f"got {got_left} and {got_right}"
            )


def _check_stated(
    stated: Mapping[str, DimExpr],
    bound: Mapping[int | str, tuple[int, str]],
    sizes: Mapping[int | str, int],
) -> None:
    for text, expr in stated.items():
        wanted, (got, where) = evaluate(expr, sizes), bound[text]
        if wanted is not None and got != wanted:
            given = ", ".join(f"{dim}={sizes[dim]}" for dim in names_in(expr))
            at = f" at {given}" if given else ""
            raise InputError(f"{where} must be {text}, which is {wanted}{at}, got {got}")


def check_limits(limits: Iterable[tuple[str, int]], sizes: Mapping[int | str, int]) -> None:
    """Check that no dimension is larger than the model's own tables.

    Raises
    ------
    InputError
        Naming the dimension, its size and its limit.
    """
    for dim, most in limits:
        if sizes.get(dim, 0) > most:
            raise InputError(
                f"dimension {dim} can be {most} at most in this model, got {sizes[dim]}"
            )


def check_least(least: Iterable[tuple[str, int]], sizes: Mapping[int | str, int]) -> None:
    """Check that no dimension is smaller than the model makes sense of.

    Raises
    ------
    InputError
        Naming the dimension, its size and its least size.
    """
    for dim, fewest in least:
        if sizes.get(dim, fewest) < fewest:
            raise InputError(
                f"dimension {dim} must be at least {fewest} in this model, got {sizes[dim]}"
            )


def _check_names(names: list[str], constants: Sequence[str], given: Mapping[str, Any]) -> None:
    if fixed := [name for name in given if name in constants]:
        raise InputError(
            f"input {fixed[0]!r} is a constant of the compiled model; "
            f"compile it with `--open {fixed[0]}` to give it at run time"
        )
    if unknown := [name for name in given if name not in names]:
        raise InputError(f"unknown input {unknown[0]!r}; the model takes {', '.join(names)}")
    if missing := [name for name in names if name not in given]:
        raise InputError(f"missing input {missing[0]!r}; the model takes {', '.join(names)}")


def _as_array(spec: TensorSpec, value: Any) -> np.ndarray:
    if isinstance(value, np.ndarray | np.generic):
        array = np.asarray(value)
        # The compiled code reads the machine's own order of bytes.
        return array if array.dtype.isnative else array.astype(array.dtype.newbyteorder("="))
    if hasattr(value, "__dlpack__"):
        try:
            return np.from_dlpack(value)
        except (BufferError, RuntimeError, TypeError, ValueError) as err:
            raise InputError(
                f"input {spec.name!r} can't be read through DLPack: {err}; give a CPU tensor"
            ) from err
    raise InputError(
        f"input {spec.name!r} must be a NumPy array or a DLPack tensor, got {type(value).__name__}"
    )


def _check(spec: TensorSpec, array: np.ndarray, bound: dict[int | str, tuple[int, str]]) -> None:
    if (dtype := _dtype_name(array.dtype)) != spec.dtype:
        raise InputError(
            f"input {spec.name!r} must be {spec.dtype}, got {dtype}; "
            f"convert it with .astype({spec.dtype!r})"
        )
    if array.ndim != len(spec.shape):
        raise InputError(
            f"input {spec.name!r} must have rank {len(spec.shape)} ({spec}), "
            f"got rank {array.ndim}: {_dims(array.shape)}"
        )
    for axis, (dim, size) in enumerate(zip(spec.shape, array.shape, strict=True)):
        if isinstance(dim, int):
            if size != dim:
                raise InputError(
                    f"input {spec.name!r} must have {dim} along axis {axis} ({spec}), "
                    f"got {size}: {_dims(array.shape)}"
                )
            continue
        here = f"axis {axis} of {spec.name!r}"
        known, where = bound.setdefault(dim, (size, here))
        if known != size:
            raise InputError(
                f"dimension {dim} must be the same everywhere, got {known} at {where} "
                f"and {size} at {here}"
            )


@lru_cache(maxsize=64)
def _dtype_name(dtype: np.dtype) -> str:
    # NumPy builds the name anew each time, which costs more than the rest of the check.
    return dtype.name


def _lay_out(array: np.ndarray) -> np.ndarray:
    if array.size == 0:
        return _compact_empty(array)
    if (
        array.flags.c_contiguous
        # NumPy refuses to lend a read-only array through DLPack.
        and array.flags.writeable
        and array.dtype.isnative
        and array.ctypes.data % ALIGNMENT_BYTES == 0
    ):
        return array
    copy = _aligned_empty(array.shape, array.dtype.newbyteorder("="))
    copy[...] = array
    return copy


def _aligned_empty(shape: tuple[int, ...], dtype: np.dtype) -> np.ndarray:
    num_bytes = int(np.prod(shape, dtype=np.int64)) * dtype.itemsize
    raw = np.empty(num_bytes + ALIGNMENT_BYTES, dtype=np.uint8)
    start = -raw.ctypes.data % ALIGNMENT_BYTES
    return raw[start : start + num_bytes].view(dtype).reshape(shape)


def _compact_empty(array: np.ndarray) -> np.ndarray:
    # NumPy gives an empty array strides of zero, generated code checks for compact ones.
    strides, step = [], array.itemsize
    for size in reversed(array.shape):
        strides.append(step)
        step *= size
    fresh = np.empty(array.shape, dtype=array.dtype.newbyteorder("="))
    return np.lib.stride_tricks.as_strided(fresh, array.shape, strides[::-1])


def _dims(shape: tuple[int, ...]) -> str:
    return "x".join(str(size) for size in shape) or "a scalar"
