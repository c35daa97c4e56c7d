"""Code generation: the VM's instructions, and loop programs lowered to what LLVM takes.

TVM's default pipeline simplifies every function several times, and its simplifier inlines named
values: on straight-line vector code in which values are used many times that takes exponential
time (10 s for one softmax). Scheduled functions are final, so they skip those passes; others go
the default way.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import tvm
import tvm_ffi
from tvm import relax, s_tir, tirx
from tvm.relax.vm_build import _filter_tir, _vmcodegen, _vmlink
from tvm.tirx.compilation_pipeline import register_tir_pipeline

PIPELINE = "moonpoly_cpu"
SCHEDULED = "tirx.is_scheduled"

ModulePass = Callable[[tvm.IRModule], tvm.IRModule]


@tirx.transform.prim_func_pass(opt_level=0, name="JoinRamps")
def _join_ramps(
    func: tirx.PrimFunc, _mod: tvm.IRModule, _ctx: tvm.transform.PassContext
) -> tirx.PrimFunc:
    """Write the sum of a broadcast and a ramp, which flattening an index leaves, as one ramp.

    The code generator knows a contiguous access, a masked one above all, by its ramp.
    """
    return func.with_body(tvm_ffi.structural_map(func.body, (tirx.Add, _join)))


def _join(add: tirx.Add) -> tvm.ir.Expr:
    for broadcast, ramp in ((add.a, add.b), (add.b, add.a)):
        if isinstance(broadcast, tirx.Broadcast) and isinstance(ramp, tirx.Ramp):
            return tirx.Ramp(broadcast.value + ramp.base, ramp.stride, ramp.lanes)
    return add


def _is_scheduled(func: tirx.PrimFunc) -> bool:
    return bool(func.attrs is not None and func.attrs.get(SCHEDULED, False))


def _scheduled_passes() -> list[ModulePass]:
    return [
        s_tir.transform.ConvertBlocksToOpaque(),
        s_tir.transform.LowerOpaqueBlock(),
        tirx.transform.FlattenBuffer(),
        _join_ramps,
        tirx.transform.VectorizeLoop(True),
        tirx.transform.UnrollLoop(),
    ]


def _default_passes() -> list[ModulePass]:
    return [
        s_tir.transform.CanonicalizeLoop(),
        s_tir.transform.LowerInitBlock(),
        s_tir.transform.PlanAndUpdateBufferAllocationLocation(),
        s_tir.transform.ConvertBlocksToOpaque(),
        s_tir.transform.CompactBufferAllocation(),
        s_tir.transform.LowerMatchBuffer(),
        s_tir.transform.StmtSimplify(),
        s_tir.transform.LowerOpaqueBlock(),
        tirx.transform.FlattenBuffer(),
        tirx.transform.BF16ComputeLegalize(),
        s_tir.transform.LoopPartition(),
        tirx.transform.VectorizeLoop(True),
        tirx.transform.StorageRewrite(),
        tirx.transform.UnrollLoop(),
        tirx.transform.StmtSimplify(),
        tirx.transform.RemoveNoOp(),
        s_tir.transform.RewriteUnsafeSelect(),
        tirx.transform.CommonSubexprElim(),
    ]


def _final_passes() -> list[ModulePass]:
    return [
        tirx.transform.FP8ComputeLegalize(),
        tirx.transform.VerifyMemory(),
        tirx.transform.AnnotateEntryFunc(),
        tirx.transform.SplitHostDevice(),
        tirx.transform.MakePackedAPI(),
        tirx.transform.FP8StorageLegalize(),
        tirx.transform.BF16StorageLegalize(),
    ]


def _host_passes() -> tvm.transform.Pass:
    return tvm.ir.transform.Sequential(
        [tirx.transform.LowerTVMBuiltin(), tirx.transform.LowerIntrin()]
    )


def _device_passes() -> tvm.transform.Pass:
    return tvm.ir.transform.Sequential([tirx.transform.LowerIntrin()])


def _apply(passes: Sequence[ModulePass], mod: tvm.IRModule) -> tvm.IRModule:
    for lower in passes:
        mod = lower(mod)
    return mod


@tvm.transform.module_pass(opt_level=0, name="LowerForCPU")
def _lower(mod: tvm.IRModule, _ctx: tvm.transform.PassContext) -> tvm.IRModule:
    scheduled = tirx.transform.Filter(_is_scheduled)(mod)
    rest = tirx.transform.Filter(lambda func: not _is_scheduled(func))(mod)
    scheduled = _apply(_scheduled_passes(), scheduled)
    scheduled.update(_apply(_default_passes(), rest))
    return _apply(_final_passes(), scheduled)


register_tir_pipeline(PIPELINE, lambda: (_lower, _host_passes, _device_passes))


def generate(mod: tvm.IRModule, target: tvm.target.Target) -> tvm.runtime.Executable:
    """Generate the VM's code and machine code for a module that all phases have run on."""
    builder = relax.ExecBuilder()
    rest = _vmcodegen(builder, mod)
    return _vmlink(builder, target, _filter_tir(rest), tir_pipeline=PIPELINE)


def pack_imports(module: tvm.runtime.Module, _system: bool, prefix: str, folder: str) -> str:
    """Write the VM's program with its weights for the linker, and return the file's name.

    TVM makes an LLVM module of it, which for weights of 2 GB takes a minute and 6 GB of memory more
    than an assembler's directive that copies a file. The section may lie beyond the reach of 32-bit
    offsets; it is found by its name.
    """
    # The length of what follows, in 8 bytes, comes first.
    content = tvm_ffi.get_global_func("runtime.ModulePackImportsToTensor")(module)
    symbol = prefix + tvm_ffi.get_global_func("runtime.ModuleImportsBlobName")()
    data, source = Path(folder) / "imports.bin", Path(folder) / "imports.s"
    content.numpy().tofile(data)
    source.write_text(
        f'.section .lrodata,"al",@progbits\n'
        f".globl {symbol}\n.type {symbol},@object\n.balign 64\n"
        f'{symbol}:\n.incbin "{data}"\n.size {symbol}, .-{symbol}\n'
        f'.section .note.GNU-stack,"",@progbits\n'
    )
    return str(source)
