"""What no other rule can read: scans, sorts, searches. Parallel where TVM can prove it safe."""

from __future__ import annotations

import tvm
from tvm import s_tir
from tvm.tirx import PrimFunc

from moonpoly.compiler.schedule.expression import constant_int


def schedule_fallback(func: PrimFunc) -> PrimFunc:
    """Share the outer loops of every block among threads, and leave the rest as it is.

    A function that isn't made of blocks, such as a sort, comes back unchanged.
    """
    schedule = s_tir.Schedule(tvm.IRModule({"main": func}), debug_mask="none")
    try:
        blocks = schedule.get_child_blocks(schedule.get_sblock("root"))
    except s_tir.ScheduleError:
        return func
    for block in blocks:
        _share_outer_loops(schedule, block)
        _begin_apart(schedule, block)
    return schedule.mod["main"]


def _share_outer_loops(schedule: s_tir.Schedule, block: s_tir.schedule.SBlockRV) -> None:
    loops = schedule.get_loops(block)
    kinds = [var.iter_type for var in schedule.get(block).iter_vars]
    data_parallel = schedule.get(block).iter_vars[0].DataPar if kinds else 0
    outer = []
    for loop, kind in zip(loops, kinds, strict=False):
        if kind != data_parallel:
            break
        outer.append(loop)
    # The last loop stays inside, so that a task is more than one element.
    if len(outer) == len(loops):
        outer = outer[:-1]
    if not outer or all(constant_int(schedule.get(loop).extent) == 1 for loop in outer):
        return
    fused = schedule.fuse(*outer) if len(outer) > 1 else outer[0]
    try:
        schedule.parallel(fused)
    except s_tir.ScheduleError:
        return


def _begin_apart(schedule: s_tir.Schedule, block: s_tir.schedule.SBlockRV) -> None:
    """Store what a reduction begins with before its loops: those over nothing don't run at all."""
    definition = schedule.get(block)
    reduced = [var.iter_type == var.CommReduce for var in definition.iter_vars]
    count = sum(reduced)
    # Loops in front may be fused; the last are of one axis each.
    if definition.init is not None and all(reduced[len(reduced) - count :]):
        schedule.decompose_reduction(block, schedule.get_loops(block)[-count])
