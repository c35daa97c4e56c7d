"""From a candidate to code: instantiate its template, apply a trace, build a library."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import tvm
from tvm import s_tir, tirx

from moonpoly.autotune.candidates import Candidate
from moonpoly.autotune.prefetch import insert_prefetch, reads_panels
from moonpoly.autotune.registers import PIPELINE
from moonpoly.target import Target
from moonpoly.tir_templates import template

# TVM names a module's only function so wherever schedules are searched and replayed.
MAIN = "main"

# What the names of a kernel's versions end in: for panels of B, and for rows of A, from memory.
FAR_PANELS, FAR_ROWS = "_far_panels", "_far_rows"

# An unrolled reduction leaves a remainder; without this its test stays in the innermost loop.
_PASS_CONFIG = {"s_tir.LoopPartition": {"partition_const_loop": False}}


def kernel_module(candidate: Candidate) -> tvm.IRModule:
    """Return the unscheduled kernel: all extents and strides symbolic."""
    tile = candidate.tile
    func = template(tile.family)(tile.um, tile.un, candidate.lanes, candidate.dtype)
    return tvm.IRModule({MAIN: func})


def tuning_module(candidate: Candidate, m: int, n: int, k: int) -> tvm.IRModule:
    """Return the unscheduled kernel as it is tuned: extents fixed, strides still symbolic.

    MetaSchedule's argument description needs constant extents and tensors only, so ``accumulate``
    is fixed to 0. The strides stay symbolic: a tile tuned on constant strides spills registers
    once they become symbolic. The blocks are those of :func:`kernel_module`, so that a trace found
    here applies there.
    """
    func = kernel_module(candidate)[MAIN]
    shapes = argument_shapes(candidate, m, n, k)
    fixed: dict[tirx.Var, object] = {
        param: tirx.decl_buffer(
            [tirx.IntImm("int64", extent) for extent in shape],
            candidate.dtype,
            param.name,
            strides=list(param.strides),
            elem_offset=param.elem_offset,
            data_alignment=param.data_alignment,
        )
        for param, shape in zip(func.params, shapes, strict=False)
    }
    fixed[func.params[len(shapes)]] = tirx.IntImm("int32", 0)
    return tvm.IRModule({MAIN: func.specialize(fixed)})


def argument_shapes(candidate: Candidate, m: int, n: int, k: int) -> tuple[tuple[int, ...], ...]:
    """Return the shapes of A, B and C of a problem shape in the layout of the family."""
    if candidate.tile.family == "outer":
        return (m, k), (n // candidate.lanes, k, candidate.lanes), (m, n)
    return (m, k), (n, k), (m, n)


def scheduled_kernel(candidate: Candidate, trace: Any) -> tirx.PrimFunc:
    """Return the kernel with symbolic extents, scheduled by a trace found with fixed ones.

    ``trace`` is in its JSON form. Annotations are left to :func:`build_kernels`.
    """
    sch = s_tir.Schedule(kernel_module(candidate))
    s_tir.schedule.Trace.apply_json_to_schedule(trace, sch)
    return sch.mod[MAIN]


def lower_annotations(mod: tvm.IRModule) -> tvm.IRModule:
    """Replace the annotations that TVM does not know by code, in every function."""
    return tvm.IRModule({var: insert_prefetch(func) for var, func in mod.functions.items()})


def build_kernels(functions: Mapping[str, tirx.PrimFunc], target: Target) -> tvm.runtime.Executable:
    """Compile scheduled kernels into one module, each exported under its name.

    An outer kernel has versions for operands that come from memory, see :mod:`.prefetch`.
    """
    versions = {}
    for name, func in functions.items():
        outer = reads_panels(func)
        versions[name] = insert_prefetch(func, searched=not outer)
        if outer:
            versions[name + FAR_PANELS] = insert_prefetch(func)
            versions[name + FAR_ROWS] = insert_prefetch(func, searched=False, next_rows=True)
    named = {name: func.with_attr("global_symbol", name) for name, func in versions.items()}
    return build_module(tvm.IRModule(named), target.tvm_target())


def build_module(mod: tvm.IRModule, target: tvm.target.Target) -> tvm.runtime.Executable:
    """Compile a module of scheduled kernels, annotations already lowered."""
    with tvm.transform.PassContext(config=_PASS_CONFIG):
        return tvm.compile(mod, target=target, tir_pipeline=PIPELINE)


def load_kernels(functions: Mapping[str, tirx.PrimFunc], target: Target) -> tvm.runtime.Module:
    """Compile kernels and load them as they are loaded from an artifact."""
    with tempfile.TemporaryDirectory() as folder:
        library = Path(folder) / "kernels.so"
        build_kernels(functions, target).export_library(str(library))
        return tvm.runtime.load_module(str(library))
