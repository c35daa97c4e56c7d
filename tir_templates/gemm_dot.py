"""Family "dot": an element of C is a dot product, computed in ``lanes`` partial sums along k.

For outputs too thin to fill a vector of columns: both operands are contiguous along k, nothing is
packed, and the partial sums are added once at the end.
"""

from __future__ import annotations

import numpy as np
import tvm
from tvm.script import tirx as T

# The partial sums are first added to this many in whole vectors, the rest one by one: that is
# where extracting single elements becomes as cheap as shuffling vectors.
_FOLDED = 4


def gemm_dot(um: int, un: int, lanes: int, dtype: str) -> tvm.tirx.PrimFunc:
    """Return ``C = A B^T`` or ``C += A B^T`` over whole tiles of ``um`` rows and ``un`` columns.

    Arguments of the PrimFunc: A ``(m, k)`` with strides ``(a_m, 1)``, B ``(n, k)`` with strides
    ``(b_n, 1)``, C ``(m, n)`` with strides ``(ldc, 1)``, and ``accumulate`` (int32, 0 or 1).
    ``m`` is a multiple of ``um``, ``n`` of ``un``; k is any.

    Blocks: ``tile`` (one tile of C), in it ``multiply``, ``fold``, ``total``, ``tail`` and
    ``write``.
    """
    folds = lanes // _FOLDED
    folded_lanes = _FOLDED
    # Operands are regions of tensors: no more is known of an address than that it holds an element.
    align = np.dtype(dtype).itemsize

    @T.prim_func(s_tir=True)
    def gemm(a: T.handle, b: T.handle, c: T.handle, accumulate: T.int32):
        T.func_attr({"global_symbol": "main", "tirx.noalias": True})
        m = T.int64()
        n = T.int64()
        k = T.int64()
        a_m = T.int64()
        b_n = T.int64()
        ldc = T.int64()
        A = T.match_buffer(a, (m, k), dtype, strides=(a_m, T.int64(1)), align=align)
        B = T.match_buffer(b, (n, k), dtype, strides=(b_n, T.int64(1)), align=align)
        C = T.match_buffer(c, (m, n), dtype, strides=(ldc, T.int64(1)), align=align)
        for j, i in T.grid(n // T.int64(un), m // T.int64(um)):
            with T.sblock("tile"):
                vj, vi = T.axis.remap("SS", [j, i])
                T.reads(
                    A[vi * um : vi * um + um, 0:k],
                    B[vj * un : vj * un + un, 0:k],
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
                acc = T.sblock_alloc_buffer((T.int64(um), T.int64(un), T.int64(lanes)), dtype)
                folded = T.sblock_alloc_buffer(
                    (T.int64(um), T.int64(un), T.int64(folded_lanes)), dtype
                )
                total = T.sblock_alloc_buffer((T.int64(um), T.int64(un)), dtype)
                rest = T.sblock_alloc_buffer((T.int64(um), T.int64(un)), dtype)
                for s, r, q, l in T.grid(
                    k // T.int64(lanes), T.int64(um), T.int64(un), T.int64(lanes)
                ):
                    with T.sblock("multiply"):
                        vs, vr, vq, vl = T.axis.remap("RSSS", [s, r, q, l])
                        with T.init():
                            acc[vr, vq, vl] = T.cast(0, dtype)
                        acc[vr, vq, vl] = (
                            acc[vr, vq, vl]
                            + A[vi * um + vr, vs * lanes + vl] * B[vj * un + vq, vs * lanes + vl]
                        )
                for r, q, h, l in T.grid(
                    T.int64(um), T.int64(un), T.int64(folds), T.int64(folded_lanes)
                ):
                    with T.sblock("fold"):
                        vr, vq, vh, vl = T.axis.remap("SSRS", [r, q, h, l])
                        with T.init():
                            folded[vr, vq, vl] = T.cast(0, dtype)
                        folded[vr, vq, vl] = (
                            folded[vr, vq, vl] + acc[vr, vq, vh * folded_lanes + vl]
                        )
                for r, q, l in T.grid(T.int64(um), T.int64(un), T.int64(folded_lanes)):
                    with T.sblock("total"):
                        vr, vq, vl = T.axis.remap("SSR", [r, q, l])
                        with T.init():
                            total[vr, vq] = T.if_then_else(
                                accumulate != 0, before[vr, vq], T.cast(0, dtype)
                            )
                        total[vr, vq] = total[vr, vq] + folded[vr, vq, vl]
                for s, r, q in T.grid(k % T.int64(lanes), T.int64(um), T.int64(un)):
                    with T.sblock("tail"):
                        vs, vr, vq = T.axis.remap("RSS", [s, r, q])
                        with T.init():
                            rest[vr, vq] = T.cast(0, dtype)
                        rest[vr, vq] = (
                            rest[vr, vq]
                            + A[vi * um + vr, k // lanes * lanes + vs]
                            * B[vj * un + vq, k // lanes * lanes + vs]
                        )
                for r, q in T.grid(T.int64(um), T.int64(un)):
                    with T.sblock("write"):
                        vr, vq = T.axis.remap("SS", [r, q])
                        after[vr, vq] = total[vr, vq] + rest[vr, vq]

    return gemm
