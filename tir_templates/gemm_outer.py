"""Family "outer": a tile of C is a sum of outer products of A's columns and B's rows.

B comes in panels of ``lanes`` columns that are contiguous, addressed by two strides: packed panels
and a plain row-major B are the same program. The tile of C lies in ``acc`` through the whole
reduction.
"""

from __future__ import annotations

import numpy as np
import tvm
from tvm.script import tirx as T


def gemm_outer(um: int, un: int, lanes: int, dtype: str) -> tvm.tirx.PrimFunc:
    """Return ``C = A B`` or ``C += A B`` over whole tiles of ``um`` rows and ``un`` columns.

    Arguments of the PrimFunc: A ``(m, k)`` with strides ``(a_m, a_k)``, B ``(n / lanes, k, lanes)``
    with strides ``(b_panel, b_k, 1)``, C ``(m, n)`` with strides ``(ldc, 1)``, and ``accumulate``
    (int32, 0 or 1). ``m`` is a multiple of ``um``, ``n`` of ``un``, ``un`` of ``lanes``.

    Blocks: ``tile`` (one tile of C), in it ``multiply`` (with its init) and ``write``.
    """
    panels_per_tile = un // lanes
    # Operands are regions of tensors: no more is known of an address than that it holds an element.
    align = np.dtype(dtype).itemsize

    # Every literal extent is int64 too: a mix of widths is rejected when the buffers are matched.
    # `before` and `after` are the same elements of C under two names, because a scope that reads a
    # buffer and then writes it is no pipeline of stages, which a schedule may move.
    @T.prim_func(s_tir=True)
    def gemm(a: T.handle, b: T.handle, c: T.handle, accumulate: T.int32):
        T.func_attr({"global_symbol": "main", "tirx.noalias": True})
        m = T.int64()
        n = T.int64()
        k = T.int64()
        panels = T.int64()
        a_m = T.int64()
        a_k = T.int64()
        b_panel = T.int64()
        b_k = T.int64()
        ldc = T.int64()
        A = T.match_buffer(a, (m, k), dtype, strides=(a_m, a_k), align=align)
        B = T.match_buffer(
            b, (panels, k, T.int64(lanes)), dtype, strides=(b_panel, b_k, T.int64(1)), align=align
        )
        C = T.match_buffer(c, (m, n), dtype, strides=(ldc, T.int64(1)), align=align)
        # Panels outside, rows inside: a tile's panels of B stay in the first cache for all rows.
        for j, i in T.grid(n // T.int64(un), m // T.int64(um)):
            with T.sblock("tile"):
                vj, vi = T.axis.remap("SS", [j, i])
                T.reads(
                    A[vi * um : vi * um + um, 0:k],
                    B[vj * panels_per_tile : vj * panels_per_tile + panels_per_tile, 0:k, 0:lanes],
                    C[vi * um : vi * um + um, vj * un : vj * un + un],
                )
                T.writes(C[vi * um : vi * um + um, vj * un : vj * un + un])
                ld_before = T.int64()
                ld_after = T.int64()
                before = T.match_buffer(
                    C[vi * um : vi * um + um, vj * un : vj * un + un],
                    (T.int64(um), T.int64(un)),
                    dtype,
                    strides=(ld_before, T.int64(1)),
                    align=align,
                    offset_factor=1,
                )
                after = T.match_buffer(
                    C[vi * um : vi * um + um, vj * un : vj * un + un],
                    (T.int64(um), T.int64(un)),
                    dtype,
                    strides=(ld_after, T.int64(1)),
                    align=align,
                    offset_factor=1,
                )
                acc = T.sblock_alloc_buffer(
                    (T.int64(um), T.int64(panels_per_tile), T.int64(lanes)), dtype
                )
                for s, r, p, l in T.grid(k, T.int64(um), T.int64(panels_per_tile), T.int64(lanes)):
                    with T.sblock("multiply"):
                        vs, vr, vp, vl = T.axis.remap("RSSS", [s, r, p, l])
                        with T.init():
                            acc[vr, vp, vl] = T.if_then_else(
                                accumulate != 0, before[vr, vp * lanes + vl], T.cast(0, dtype)
                            )
                        acc[vr, vp, vl] = (
                            acc[vr, vp, vl]
                            + A[vi * um + vr, vs] * B[vj * panels_per_tile + vp, vs, vl]
                        )
                for r, p, l in T.grid(T.int64(um), T.int64(panels_per_tile), T.int64(lanes)):
                    with T.sblock("write"):
                        vr, vp, vl = T.axis.remap("SSS", [r, p, l])
                        after[vr, vp * lanes + vl] = acc[vr, vp, vl]

    return gemm
