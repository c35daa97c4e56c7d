"""One step of a GPU's tile as a block: what is searched, while TIRx programs can't be scheduled.

MetaSchedule schedules blocks; the tile programs of ``wgmma`` are written out. So the search works
on this block, whose schedule is annotations alone, and ``wgmma`` turns them into a program.
"""

from __future__ import annotations

import tvm
from tvm.script import tirx as T

from .items import DTYPE, ITEMS


def gemm_tile(um: int, un: int, lanes: int, dtype: str) -> tvm.tirx.PrimFunc:
    """Return C (um, un) += A (um, step) times B (un, step) transposed, one block, "multiply".

    A step is 128 bytes. ``lanes`` is not used: a tensor core has none.
    """
    item = ITEMS[dtype]
    step, stored = item.step, "float32" if dtype == "tf32" else dtype
    sums = "int32" if item.sums == "uint32" else "float32"
    zero = tvm.tirx.const(0, sums)

    @T.prim_func(s_tir=True)
    def main(a: T.handle, b: T.handle, c: T.handle):
        A = T.match_buffer(a, (um, step), stored)
        B = T.match_buffer(b, (un, step), stored)
        C = T.match_buffer(c, (um, un), sums)
        for i, j, k in T.grid(um, un, step):
            with T.sblock("multiply"):
                vi, vj, vk = T.axis.remap("SSR", [i, j, k])
                T.sblock_attr({DTYPE: dtype})
                with T.init():
                    C[vi, vj] = zero
                C[vi, vj] = C[vi, vj] + T.cast(A[vi, vk], sums) * T.cast(B[vj, vk], sums)

    return main
