"""The list of passes from an imported model to what the VM's code generator takes.

Set ``MOONPOLY_DUMP_IR`` to a folder to have the module written there after each phase.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

import tvm
from tvm import relax

from moonpoly import config
from moonpoly.compiler.ops.reshape import legalize_reshape
from moonpoly.compiler.passes.absorb_transposition import AbsorbTransposition
from moonpoly.compiler.passes.bound_gather import BoundGather
from moonpoly.compiler.passes.fold_affine import FoldAffine
from moonpoly.compiler.passes.fold_constant import FoldConstant
from moonpoly.compiler.passes.fuse_epilogue import FuseEpilogue
from moonpoly.compiler.passes.fuse_groups import FuseGroups
from moonpoly.compiler.passes.join_permutes import JoinPermutes
from moonpoly.compiler.passes.lower_control_flow import LowerControlFlow
from moonpoly.compiler.passes.name_dims import NameDims
from moonpoly.compiler.passes.order_dims import OrderDims
from moonpoly.compiler.passes.report_rest import ReportRest
from moonpoly.compiler.passes.reuse_addend import ReuseAddend
from moonpoly.compiler.passes.rewrite_conv2d import RewriteConv2d
from moonpoly.compiler.passes.rewrite_matmul import RewriteMatmul
from moonpoly.compiler.passes.rewrite_recurrent import RewriteRecurrent
from moonpoly.compiler.progress import OnProgress, silent
from moonpoly.compiler.schedule import schedule_cpu
from moonpoly.compiler.sites import SiteTable

# TVM makes passes of classes and functions with a decorator that type checkers can't follow.
ModulePass: TypeAlias = Any


@dataclass(frozen=True)
class Phase:
    """Passes that belong together; the module is dumped after them."""

    name: str
    passes: Sequence[ModulePass]


def rewriting_phases(table: SiteTable) -> list[Phase]:
    """Return the phases that decide what becomes a run-time intrinsic, in order.

    ``table`` is filled with the call sites and the report.
    """
    t = relax.transform
    return [
        # What can be known at compile time, and what inference needs not do.
        Phase(
            "1_simplify",
            [
                BoundGather(),
                t.DecomposeOpsForInference(),
                t.CanonicalizeBindings(),
                FoldConstant(),
                JoinPermutes(),
                t.CanonicalizeBindings(),
                FoldAffine(),
            ],
        ),
        # The matrix products become run-time intrinsics, with what follows them fused in.
        Phase("2_rewrite", [RewriteMatmul(table), RewriteConv2d(table), RewriteRecurrent(table)]),
        Phase(
            "3_epilogue",
            [FuseEpilogue(table), AbsorbTransposition(table), ReportRest(table)],
        ),
    ]


def lowering_phases(target: tvm.target.Target, table: SiteTable) -> list[Phase]:
    """Return the phases from there to what the VM's code generator takes, in order.

    Parameters
    ----------
    target
        TVM's target of the generated code.
    table
        What the rewriting phases filled.
    """
    t = relax.transform
    return [
        # The rest becomes loops, fused where one result feeds the next.
        Phase(
            "4_legalize",
            [
                tvm.relax.backend.DispatchSortScan(),
                t.LegalizeOps({"relax.reshape": legalize_reshape}),
                t.AnnotateTIROpPattern(),
                FoldConstant(),
            ],
        ),
        # A reshape becomes a view before its loops are scheduled beyond recognition.
        Phase(
            "5_fuse",
            [
                FuseGroups(),
                t.FuseTIR(),
                OrderDims(),
                t.RewriteDataflowReshape(),
                t.DeadCodeElimination(),
                NameDims(),
            ],
        ),
        Phase("6_schedule", [lambda mod: schedule_cpu(mod, target)]),
        # Values become buffers, calls become calls of destination-passing functions.
        Phase(
            "7_lower_dataflow",
            [
                t.ToNonDataflow(),
                t.RemovePurityChecking(),
                t.CallTIRRewrite(),
                ReuseAddend(table),
            ],
        ),
        Phase(
            "8_plan_memory",
            [t.StaticPlanBlockMemory(), t.LowerAllocTensor(), t.KillAfterLastUse()],
        ),
        Phase(
            "9_lower_vm",
            [
                t.LowerRuntimeBuiltin(),
                t.ComputePrimValue(),
                t.VMShapeLower(),
                t.AttachGlobalSymbol(),
                LowerControlFlow(),
            ],
        ),
    ]


def run_phases(
    mod: tvm.IRModule, phases: Sequence[Phase], on_progress: OnProgress = silent
) -> tvm.IRModule:
    """Run ``phases`` on ``mod``, with a dump after each where one is asked for."""
    folder = config.dump_ir_dir()
    done, total = 0, sum(len(phase.passes) for phase in phases)
    for phase in phases:
        for apply in phase.passes:
            on_progress("rewriting", done, total)
            mod = apply(mod)
            done += 1
        if folder is not None:
            _dump(mod, folder, phase.name)
    return mod


def _dump(mod: tvm.IRModule, folder: Path, name: str) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    config.atomic_write(folder / f"{name}.py", mod.script(show_meta=False).encode())
