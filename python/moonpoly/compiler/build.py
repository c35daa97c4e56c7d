"""From an ONNX model to a model library: import, rewrite, generate code, link."""

from __future__ import annotations

import contextlib
import errno
import os
import shutil
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import tvm
from tvm import relax

from moonpoly import config
from moonpoly.autotune import load_artifact
from moonpoly.compiler.codegen import generate, pack_imports
from moonpoly.compiler.frontend import ImportedModel, ModelSource, import_model
from moonpoly.compiler.metadata import add_defaults, add_metadata, model_metadata
from moonpoly.compiler.passes.find_limits import find_limits
from moonpoly.compiler.pipeline import lowering_phases, rewriting_phases, run_phases
from moonpoly.compiler.progress import OnProgress, silent
from moonpoly.compiler.sites import SiteTable, combined_digest
from moonpoly.error import InputError, MoonPolyError, TargetError
from moonpoly.runtime import Executable
from moonpoly.target import Target, host_target
from moonpoly.workload import Workload

if TYPE_CHECKING:
    from moonpoly.autotune import Artifact

_WORKLOAD = Workload(op="gemm", dtype="float32")
# Keys of a manifest that speak of the artifact's own files; the kernels are in the model now.
_FILE_KEYS = ("digest", "kernels_digest")

# More than the generated code and the micro-kernels of a model take.
_CODE_BYTES = 16_000_000

DimHints = Mapping[str, tuple[int, int]]


def compile(
    model: ModelSource,
    target: Target | str | None = None,
    dim_hints: DimHints | None = None,
    dims: Mapping[str, int] | None = None,
    open_inputs: Sequence[str] = (),
) -> Executable:
    """Compile an ONNX model so that it runs at any size of its symbolic dimensions.

    Parameters
    ----------
    model
        Path or content of an ONNX file, or a parsed model.
    target
        The machine to compile for, or its name; this machine by default.
    dim_hints
        Symbolic dimension → smallest and largest size that is expected. A hint guides, it doesn't
        restrict: any other size runs as well.
    dims
        Symbolic dimension → the only size that it is to have.
    open_inputs
        Initialisers, listed as inputs too, that a run may give another value; the others are
        constants, which is faster.

    Returns
    -------
    executable
        The loaded model, in a temporary file until it is saved.

    Raises
    ------
    ModelError
        If the model is not valid ONNX.
    UnsupportedError
        If it uses an operator that can't be compiled; all such are named.
    InputError
        If a hint or size names no symbolic dimension of the model, or its range is empty; if
        ``open_inputs`` names no initialiser that is listed as an input.
    TargetError
        If the target is unknown or this machine can't run it.
    StorageError
        If a file can't be read or written.
    """
    target = _resolve(target)
    _require_processor(target)
    target.require_host()
    with contextlib.ExitStack() as on_error:
        folder = config.temporary_folder()
        on_error.callback(shutil.rmtree, folder, ignore_errors=True)
        path = folder / "model.so"
        build_library(model, target, dim_hints or {}, path, dims, open_inputs)
        executable = Executable(path, owned_folder=folder)
        on_error.pop_all()
    return executable


def build_library(
    model: ModelSource,
    target: Target,
    dim_hints: DimHints,
    path: Path,
    dims: Mapping[str, int] | None = None,
    open_inputs: Sequence[str] = (),
    on_progress: OnProgress = silent,
) -> dict[str, Any]:
    """Compile ``model`` into the shared library ``path`` and return its metadata.

    The library holds the VM's code, the weights, the generated kernels, the epilogues and the
    micro-kernels. Raises as :func:`compile` does, except that the target needn't be this machine.
    ``on_progress`` is told of nodes, passes and what comes after them.
    """
    _require_processor(target)
    imported = import_model(model, dims, open_inputs, on_progress)
    _check_hints(imported, dim_hints, dims or {})
    artifact = load_artifact(target, _WORKLOAD)
    table = SiteTable(
        digest=_digest(imported, artifact, target, dim_hints),
        lanes=target.vector_lanes[_WORKLOAD.dtype],
    )
    tvm_target = target.tvm_target()
    with tvm_target:
        mod = run_phases(
            imported.module,
            rewriting_phases(table) + lowering_phases(tvm_target, table),
            on_progress,
        )
    manifest = {key: value for key, value in artifact.manifest.items() if key not in _FILE_KEYS}
    metadata = model_metadata(
        imported,
        table,
        target,
        artifacts={_WORKLOAD.key: manifest},
        dim_hints=dim_hints,
        limits=find_limits(imported.module),
    )
    on_progress("generating code", 0, 2)
    mod = add_defaults(add_metadata(mod, metadata), imported.defaults)
    executable = generate(mod, tvm_target)
    on_progress("linking", 1, 2)
    weights = _weight_bytes(mod)
    # The linker reads them from a file and from an object made of it.
    config.require_space(tempfile.gettempdir(), 2 * weights + _CODE_BYTES)
    with config.atomic_file(path) as temp:
        config.require_space(temp.parent, weights + _CODE_BYTES)
        try:
            executable.export_library(
                str(temp), addons=[str(artifact.object_path)], fpack_imports=pack_imports
            )
        except RuntimeError as err:
            if os.strerror(errno.ENOSPC) in str(err):
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(path)) from err
            raise MoonPolyError(
                f"the linker failed: {_last_line(err)}; a C++ compiler (g++ or clang++) is needed"
            ) from err
    return metadata


def describe(
    model: ModelSource,
    target: Target | str | None = None,
    dims: Mapping[str, int] | None = None,
    dim_hints: DimHints | None = None,
    on_progress: OnProgress = silent,
) -> dict[str, Any]:
    """Return the metadata that ``model`` would have, without generating code.

    It has no artifact and no digest of one. Raises :class:`ModelError`, :class:`UnsupportedError`,
    :class:`InputError`, :class:`StorageError` and :class:`TargetError` as :func:`compile` does.
    """
    target, dim_hints = _resolve(target), dim_hints or {}
    _require_processor(target)
    imported = import_model(model, dims, on_progress=on_progress)
    _check_hints(imported, dim_hints, dims or {})
    table = SiteTable(digest=imported.digest, lanes=target.vector_lanes[_WORKLOAD.dtype])
    run_phases(imported.module, rewriting_phases(table), on_progress)
    limits = find_limits(imported.module)
    return model_metadata(imported, table, target, artifacts={}, dim_hints=dim_hints, limits=limits)


def _resolve(target: Target | str | None) -> Target:
    if target is None:
        return host_target()
    return Target.parse(target) if isinstance(target, str) else target


def _require_processor(target: Target) -> None:
    if target.is_gpu:
        raise TargetError(
            f"models are compiled for processors, not for {target.name}; there, single products "
            "run by moonpoly.matmul, or from a Relax module by planning.product_function"
        )


def _check_hints(model: ImportedModel, dim_hints: DimHints, dims: Mapping[str, int]) -> None:
    names = set(model.dim_names.values())
    for name, (low, high) in dim_hints.items():
        if name in dims:
            raise InputError(
                f"dimension {name!r} has the one size {dims[name]}; leave out its hint {low}:{high}"
            )
        if name not in names:
            known = ", ".join(sorted(names)) or "none, all sizes are fixed"
            raise InputError(f"no symbolic dimension {name!r} in the model; it has {known}")
        if not 1 <= low <= high:
            raise InputError(f"hint {name}={low}:{high} is no range of sizes; give LOW:HIGH ≥ 1")


def _digest(model: ImportedModel, artifact: Artifact, target: Target, dim_hints: DimHints) -> str:
    return combined_digest(
        [
            model.digest,
            artifact.manifest["digest"],
            config.package_version(),
            tvm.__version__,
            target.to_dict(),
            {name: list(bounds) for name, bounds in dim_hints.items()},
            [spec.to_dict() for spec in model.inputs],
        ]
    )


def _weight_bytes(mod: tvm.IRModule) -> int:
    """Return the bytes of all constants: what a library holds besides code."""
    total = 0

    def count(expr: tvm.ir.Expr) -> None:
        nonlocal total
        if isinstance(expr, tvm.ir.GenericConst) and isinstance(expr.ty, relax.TensorType):
            total += expr.value.numpy().nbytes

    for function in mod.functions.values():
        if isinstance(function, relax.Function):
            relax.analysis.post_order_visit(function, count)
    return total


def _last_line(err: Exception) -> str:
    lines = [line.strip() for line in str(err).splitlines() if line.strip()]
    return lines[-1] if lines else type(err).__name__
