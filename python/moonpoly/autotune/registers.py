"""Give the accumulators of a micro-kernel places of their own, which LLVM keeps in registers.

TVM takes a local array from its workspace, by a call. LLVM then keeps the elements in registers
within a loop, but has to assume that somebody else reads the array: it clears it by a call of
``memset`` for every tile and copies what C holds through it. On short reductions that took as long
as the products. A variable on the stack that nobody knows the address of is a register.
"""

from __future__ import annotations

from typing import Any

import tvm
import tvm_ffi
from tvm import s_tir, tirx
from tvm.tirx.compilation_pipeline import register_tir_pipeline

PIPELINE = "moonpoly_kernels"


@tirx.transform.prim_func_pass(opt_level=0, name="ArraysToRegisters")
def arrays_to_registers(
    func: tirx.PrimFunc, _mod: tvm.IRModule, _ctx: tvm.transform.PassContext
) -> tirx.PrimFunc:
    """Cut every local array that is accessed at constant places into one variable an access.

    Requires flat buffers and unrolled loops. Arrays with other accesses stay as they are.
    """
    sizes = _variable_sizes(func.body)
    variables: dict[tirx.Var, list[tirx.Var]] = {}

    def allocate(alloc: tirx.AllocBuffer) -> tirx.Stmt:
        array = alloc.buffer
        if array not in sizes:
            return alloc
        size = sizes[array]
        variables[array] = [
            tirx.decl_buffer((min(size, extent - start),), array.dtype, f"{array.name}_{start}")
            for extent in (int(array.shape[0]),)
            for start in range(0, extent, size)
        ]
        allocations = [tirx.AllocBuffer(variable) for variable in variables[array]]
        return allocations[0] if len(allocations) == 1 else tirx.SeqStmt(allocations)

    def place(array: tirx.Var, index: Any) -> tuple[tirx.Var, list[Any]]:
        found = _constant_place(index)
        assert found is not None, f"{array.name} has an access at a variable place: {index}"
        start, lanes = found
        number, offset = divmod(start, sizes[array])
        at = tirx.IntImm("int64", offset)
        one = tirx.IntImm("int64", 1)
        return variables[array][number], [at if lanes == 1 else tirx.Ramp(at, one, lanes)]

    def load(access: tvm.ir.TensorLoad) -> tvm.ir.Expr:
        if access.source not in variables:
            return access
        return tirx.BufferLoad(*place(access.source, access.indices[0]))

    def store(access: tirx.BufferStore) -> tirx.Stmt:
        if access.buffer not in variables:
            return access
        variable, indices = place(access.buffer, access.indices[0])
        return tirx.BufferStore(variable, access.value, indices)

    body = tvm_ffi.structural_map(func.body, (tirx.AllocBuffer, allocate))
    rewrites = ((tvm.ir.TensorLoad, load), (tirx.BufferStore, store))
    return func.with_body(tvm_ffi.structural_map(body, rewrites))


def _variable_sizes(body: tirx.Stmt) -> dict[tirx.Var, int]:
    """Return the elements of a variable for each array that can be cut into such."""
    places: dict[tirx.Var, list[tuple[int, int] | None]] = {}

    def allocated(alloc: tirx.AllocBuffer) -> None:
        if alloc.buffer.scope() == "local" and len(alloc.buffer.shape) == 1:
            places[alloc.buffer] = []

    def accessed(array: tirx.Var, indices: Any) -> None:
        if array in places:
            places[array].append(_constant_place(indices[0]))

    tvm_ffi.structural_walk(body, (tirx.AllocBuffer, allocated))
    tvm_ffi.structural_walk(
        body,
        (
            (tvm.ir.TensorLoad, lambda load: accessed(load.source, load.indices)),
            (tirx.BufferStore, lambda store: accessed(store.buffer, store.indices)),
        ),
    )
    sizes = {}
    for array, found in places.items():
        constant = [place for place in found if place is not None]
        size = max((lanes for _, lanes in constant), default=1)
        inside = all(start // size == (start + lanes - 1) // size for start, lanes in constant)
        if len(constant) == len(found) and inside:
            sizes[array] = size
    return sizes


def _constant_place(index: Any) -> tuple[int, int] | None:
    """Return the first element and the number of elements of a contiguous constant index."""
    if isinstance(index, tirx.IntImm):
        return int(index), 1
    contiguous = isinstance(index, tirx.Ramp) and isinstance(index.stride, tirx.IntImm)
    if contiguous and int(index.stride) == 1 and isinstance(index.base, tirx.IntImm):
        return int(index.base), int(index.lanes)
    return None


def _pipeline() -> tuple[tvm.transform.Pass, Any, Any]:
    lower, host, device = s_tir.pipeline.default_s_tir_pipeline()
    return tvm.transform.Sequential([lower, arrays_to_registers]), host, device


register_tir_pipeline(PIPELINE, _pipeline)
