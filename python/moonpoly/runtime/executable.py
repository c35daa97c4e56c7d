"""A compiled model in memory: loading, running, saving."""

from __future__ import annotations

import json
import shutil
import threading
import weakref
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import tvm_ffi

from moonpoly import _ffi_api, config, target
from moonpoly.error import ArtifactError, InputError, MoonPolyError, TargetError
from moonpoly.runtime.binding import bind_inputs
from moonpoly.runtime.exchange import borrow, lend
from moonpoly.runtime.library_file import check_library_file
from moonpoly.runtime.metadata import ModelMetadata, TensorSpec

METADATA_FUNCTION = "moonpoly_metadata"
# Codes of the Relax VM's initialisation: DLPack's CPU, its index, the pooled allocator.
_VM_CPU = (1, 0, 2)
# How the VM reports a shape that breaks a check inside the graph.
_SHAPE_CHECKS = ("match_cast error", "check_tensor_info", "Mismatched")


class Executable:
    """A compiled model. Call it with inputs by name; it returns outputs by name.

    Safe to call from many threads at once. Made by :func:`load` or :func:`moonpoly.compile`.
    """

    def __init__(self, path: Path, *, owned_folder: Path | None = None) -> None:
        self.path = path
        self._module = _open(path)
        first = _new_vm(self._module, path)
        self._info = _parse_metadata(first, path)
        _check_host(self._info, path)
        _register(self._info, self._module, path)
        # A Relax VM serves one caller at a time: idle ones are kept for the next call.
        self._idle = [first["main"]]
        self._defaults = {name: borrow(first[by]()) for name, by in self._info.defaults.items()}
        self._lock = threading.Lock()
        if owned_folder is not None:
            weakref.finalize(self, shutil.rmtree, owned_folder, ignore_errors=True)

    @property
    def inputs(self) -> tuple[TensorSpec, ...]:
        """Names, dtypes and shapes of the inputs, in the model's order."""
        return self._info.inputs

    @property
    def optional(self) -> tuple[str, ...]:
        """The inputs that have a value of their own, which a run may replace."""
        return tuple(self._defaults)

    @property
    def outputs(self) -> tuple[TensorSpec, ...]:
        """Names, dtypes and shapes of the outputs, in the model's order."""
        return self._info.outputs

    @property
    def metadata(self) -> Mapping[str, Any]:
        """Everything the compiler recorded: versions, target, report, call sites, artifacts."""
        return self._info.raw

    def __call__(self, /, **inputs: Any) -> dict[str, np.ndarray]:
        """Run the model.

        Parameters
        ----------
        inputs
            NumPy arrays, or CPU tensors with ``__dlpack__``, by input name. They are read in
            place where they are contiguous and aligned to 64 bytes, else copied. One that the
            model has a value for may be left out, see :attr:`optional`.

        Returns
        -------
        outputs
            NumPy arrays by output name.

        Raises
        ------
        InputError
            For a name that is unknown or missing, or a wrong rank, dtype or shape.
        """
        arrays = bind_inputs(self._info, {**self._defaults, **inputs})
        with self._lock:
            main = self._idle.pop() if self._idle else None
        if main is None:
            main = _new_vm(self._module, self.path)["main"]
        try:
            result = main(*map(lend, arrays))
        except (RuntimeError, ValueError, TypeError, AssertionError) as err:
            raise _run_error(err, self._info, arrays) from err
        finally:
            with self._lock:
                self._idle.append(main)
        values = [result] if isinstance(result, tvm_ffi.Tensor) else list(result)
        return {
            spec.name: _as_output(value, arrays)
            for spec, value in zip(self.outputs, values, strict=True)
        }

    def save(self, path: Path | str) -> None:
        """Write the model to ``path``, a self-contained shared library.

        Raises
        ------
        StorageError
            If it can't be written; nothing half-written is left.
        """
        with config.atomic_file(path) as temp:
            shutil.copyfile(self.path, temp)

    def __repr__(self) -> str:
        return f"Executable({self._info.name!r}, target={self._info.target!r})"


def load(path: Path | str) -> Executable:
    """Load a model that ``moonpoly compile`` or :meth:`Executable.save` wrote.

    Raises
    ------
    StorageError
        If the file can't be read.
    ArtifactError
        If it is truncated, not a compiled model, or of another version.
    TargetError
        If this machine lacks features that the model was compiled for.
    """
    return Executable(Path(path).absolute())


def read_metadata(path: Path | str) -> ModelMetadata:
    """Return what a compiled model says of itself; it may be for another machine than this.

    Raises
    ------
    StorageError
        If the file can't be read.
    ArtifactError
        If it is truncated, not a compiled model, or of another version.
    """
    path = Path(path).absolute()
    return _parse_metadata(_new_vm(_open(path), path), path)


def _open(path: Path) -> tvm_ffi.Module:
    check_library_file(path)
    # Importing _ffi_api has loaded the package's library, where the VM finds the intrinsics.
    # Asking for the threads sizes TVM's pool, which is too late once a loop has run in parallel.
    _ffi_api.num_threads()
    try:
        return tvm_ffi.load_module(str(path))
    except (RuntimeError, OSError, ValueError) as err:
        raise ArtifactError(
            f"{path} can't be loaded: {_first_line(err)}; compile the model again"
        ) from err


def _new_vm(module: tvm_ffi.Module, path: Path) -> tvm_ffi.Module:
    if not module.implements_function("vm_load_executable"):
        raise ArtifactError(
            f"{path} is a shared library, but not a compiled model; "
            f"make one with `moonpoly compile`"
        )
    try:
        vm = module["vm_load_executable"]()
        vm["vm_initialization"](*_VM_CPU)
    except (RuntimeError, ValueError) as err:
        raise ArtifactError(
            f"{path} can't be started: {_first_line(err)}; compile the model again"
        ) from err
    return vm


def _parse_metadata(vm: tvm_ffi.Module, path: Path) -> ModelMetadata:
    if not vm.implements_function(METADATA_FUNCTION):
        raise ArtifactError(
            f"{path} was compiled by TVM without MoonPoly; make it with `moonpoly compile`"
        )
    text = np.from_dlpack(vm[METADATA_FUNCTION]()).tobytes().decode("utf-8", errors="replace")
    return ModelMetadata.parse(text, str(path), config.package_version())


def _check_host(info: ModelMetadata, path: Path) -> None:
    present = target.host_features()
    if missing := [name for name in info.features if name not in present]:
        raise TargetError(
            f"{path} was compiled for {info.target}, and this machine lacks "
            f"{', '.join(missing)}; compile it with `--target host` here"
        )


def _register(info: ModelMetadata, module: tvm_ffi.Module, path: Path) -> None:
    try:
        _ffi_api.register_model(json.dumps(info.raw), module)
    except (RuntimeError, ValueError) as err:
        raise ArtifactError(f"{path} is refused: {_first_line(err)}; compile it again") from err


def _run_error(err: Exception, info: ModelMetadata, arrays: list[np.ndarray]) -> MoonPolyError:
    shapes = ", ".join(
        f"{spec.name}={'x'.join(map(str, array.shape))}"
        for spec, array in zip(info.inputs, arrays, strict=True)
    )
    reason = " ".join(str(err).split())
    if any(mark in reason for mark in _SHAPE_CHECKS):
        return InputError(f"the model can't run at {shapes}: {reason}; check the shapes")
    return MoonPolyError(f"the model failed at {shapes}: {reason}")


def _as_output(value: tvm_ffi.Tensor, inputs: list[np.ndarray]) -> np.ndarray:
    array = borrow(value)
    # A graph may hand an input through: the caller must not find two names for one memory.
    if any(np.may_share_memory(array, given) for given in inputs):
        return array.copy()
    return array


def _first_line(err: Exception) -> str:
    lines = str(err).strip().splitlines()
    return lines[0] if lines else type(err).__name__
