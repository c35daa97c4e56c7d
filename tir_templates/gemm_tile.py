"""One step of a GPU's tile as a block: what is searched, while TIRx programs can't be scheduled.

MetaSchedule schedules blocks; the tile programs of ``wgmma`` are written out. So the search works
on this block, whose schedule is annotations alone, and ``wgmma`` turns them into a program.
"""

from __future__ import annotations

import tvm
from tvm.script import tirx as T

from .wgmma.config import STEP


def gemm_tile(um: int, un: int, lanes: int, dtype: str) -> tvm.tirx.PrimFunc:
    """Return C (um, un) += A (um, 64) times B (un, 64) transposed, one block called "multiply".

    ``lanes`` is not used: a tensor core has none.
    """

    @T.prim_func(s_tir=True)
    def main(a: T.handle, b: T.handle, c: T.handle):
        A = T.match_buffer(a, (um, STEP), dtype)
        B = T.match_buffer(b, (un, STEP), dtype)
        C = T.match_buffer(c, (um, un), "float32")
        for i, j, k in T.grid(um, un, STEP):
            with T.sblock("multiply"):
                vi, vj, vk = T.axis.remap("SSR", [i, j, k])
                with T.init():
                    C[vi, vj] = T.float32(0)
                C[vi, vj] = C[vi, vj] + T.cast(A[vi, vk], "float32") * T.cast(B[vj, vk], "float32")

    return main
