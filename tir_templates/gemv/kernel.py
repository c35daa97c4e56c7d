"""A matrix times a vector: warps read lines of the matrix and the vector, and add up."""

from __future__ import annotations

import tvm
from tvm.script import tirx as T

from ..slices import arrive_last, sums_of
from ..walk import cluster_shift
from .config import GemvConfig
from .load import WORDS, load_items, load_vectors


def gemv(c: GemvConfig) -> tvm.tirx.PrimFunc:
    """Return the program of a configuration; all extents and strides are symbolic.

    ``a`` and ``b`` are at multiples of 16 bytes, with the items to skip; k is contiguous in both,
    rows are ``a_m`` and ``b_n`` items apart. ``cluster`` blocks share the reduction of a tile, and
    so do ``slices`` clusters, which add up in ``workspace``, counted by ``counters`` (zero, before
    and after).
    """
    along_n = c.um == 1
    stored = f"uint{8 * c.item.bytes}"
    lines, stages = c.warp_lines, c.stages
    warps_k = c.warps_k
    multiply, vectors, items = _multiply(c), load_vectors(c), load_items(c)
    store = _store(c)
    add_slices = _add_slices(c, store)

    @T.prim_func
    def main(
        a: T.handle,
        a_skip: T.int32,
        a_m: T.int64,
        b: T.handle,
        b_skip: T.int32,
        b_n: T.int64,
        c_: T.handle,
        ldc: T.int32,
        m: T.int32,
        n: T.int32,
        k: T.int32,
        grid: T.int32,
        workspace_: T.handle,
        counters_: T.handle,
        cluster: T.int32,
        slices: T.int32,
    ):
        T.func_attr({"global_symbol": "main", "tirx.noalias": True})
        a_items = T.int64()
        b_items = T.int64()
        c_items = T.int64()
        w_items = T.int64()
        s_items = T.int64()
        A = T.match_buffer(a, (a_items,), stored, align=16)
        B = T.match_buffer(b, (b_items,), stored, align=16)
        C = T.match_buffer(c_, (c_items,), c.out_dtype, align=2)
        workspace = T.match_buffer(workspace_, (w_items,), "float32", align=16)
        counters = T.match_buffer(counters_, (s_items,), "int32")
        matrix, vector = T.meta_var((B, A) if along_n else (A, B))
        skip, vector_skip = T.meta_var((b_skip, a_skip) if along_n else (a_skip, b_skip))
        stride, count = T.meta_var((b_n, n) if along_n else (a_m, m))

        T.device_entry()
        T.attr({"tirx.launch_bounds_min_blocks_per_sm": c.blocks})
        rank = T.alloc_local([1], "int32")
        rank[0] = T.cta_id_in_cluster([cluster])
        block = T.cta_id([grid])
        tx = T.thread_id([c.threads])
        partial = T.alloc_buffer((warps_k, c.lines), "float32", scope="shared")
        total = T.alloc_buffer((c.lines,), "float32", scope="shared")
        warp: T.let = tx // 32
        lane: T.let = tx % 32
        sums = T.alloc_local([lines], "float32")
        words = T.alloc_local([lines * stages * 4], "uint32")
        factors = T.alloc_local([stages * 4], "uint32")
        item = T.alloc_local([lines], "int64")
        at = T.alloc_local([3], "int32")
        last = T.alloc_local([1], "int32")
        value = T.alloc_local([1], "float32")
        address = T.alloc_local([1], "uint32")

        T.ptx.griddepcontrol.launch_dependents()
        shift: T.let = cluster_shift(cluster)
        number: T.let = T.shift_right(block, shift)
        tiles: T.let = T.truncdiv(count + c.lines - 1, c.lines)
        # The tile, and the slice of its reduction.
        at[0] = number
        at[1] = 0
        if c.slices and slices > 1:
            at[1] = T.truncdiv(number, tiles)
            at[0] = number - at[1] * tiles
        # The tile's first line; of this warp's part of k the first item, and from chunk to chunk.
        at[0] = at[0] * c.lines
        at[1] = (
            (T.shift_left(at[1], shift) + rank[0]) * warps_k + T.truncmod(warp, warps_k)
        ) * c.chunk
        at[2] = T.shift_left(warps_k * c.chunk, shift) * (slices if c.slices else 1)
        for i in T.unroll(lines):
            # Lines that are not there are read as the last one.
            line: T.let = T.min(at[0] + T.truncdiv(warp, warps_k) * lines + i, count - 1)
            item[i] = T.cast(line, "int64") * stride + skip
            sums[i] = T.float32(0)
        T.ptx.griddepcontrol.wait()
        if (
            T.bitwise_and(
                T.bitwise_or(
                    T.bitwise_or(T.cast(stride, "int32"), skip), T.bitwise_or(vector_skip, k)
                ),
                c.vector - 1,
            )
            == 0
        ):
            while at[1] < k:
                vectors(matrix, vector, item, vector_skip, words, factors, at, lane, k)
                multiply(words, factors, sums)
                at[1] = at[1] + at[2] * stages
        else:
            while at[1] < k:
                items(matrix, vector, item, vector_skip, words, factors, at, lane, k)
                multiply(words, factors, sums)
                at[1] = at[1] + at[2] * stages
        for i in T.unroll(lines):
            _add_lanes(sums, i)
            if lane == 0:
                partial[T.truncmod(warp, warps_k), T.truncdiv(warp, warps_k) * lines + i] = sums[i]
        T.cuda.cta_sync()
        if tx < c.lines:
            value[0] = T.float32(0)
            for w in T.unroll(warps_k):
                value[0] = value[0] + partial[w, tx]
            total[tx] = value[0]
        if cluster > 1:
            T.ptx["barrier.cluster.arrive.release.aligned"]()
            T.ptx["barrier.cluster.wait.acquire.aligned"]()
            if rank[0] == 0 and tx < c.lines:
                value[0] = T.float32(0)
                for r in T.serial(cluster):
                    T.ptx.mapa.shared__cluster.u32(
                        address[0],
                        T.cuda.cvta_generic_to_shared(total.ptr_to([tx])),
                        T.cast(r, "uint32"),
                    )
                    T.ptx["ld.shared::cluster.f32"](sums[0], address[0])
                    value[0] = value[0] + sums[0]
            T.ptx["barrier.cluster.arrive.relaxed.aligned"]()
            T.ptx["barrier.cluster.wait.acquire.aligned"]()
        if c.slices and slices > 1:
            if rank[0] == 0:
                if tx < c.lines:
                    workspace[T.cast(number, "int64") * c.lines + tx] = value[0]
                last[0] = 0
                T.cuda.cta_sync()
                if tx == 0:
                    last[0] = arrive_last(counters, at[0] // c.lines, slices)
                if T.cuda.syncthreads_or(last[0]) != 0:
                    add_slices(workspace, C, sums, slices, at[0], tiles, warp, lane, count, ldc)
        else:
            if rank[0] == 0 and tx < c.lines:
                store(C, at[0] + tx, value[0], count, ldc)

    return main


def _store(c: GemvConfig):
    """Return an inline function that writes one item of C, if it is there."""
    apart = c.um > 1

    @T.inline
    def store(C, line, value, count, ldc):
        if line < count:
            C[T.cast(line, "int64") * (ldc if apart else 1)] = T.cast(value, c.out_dtype)

    return store


@T.inline
def _add_lanes(sums, i):
    """Add up a sum of all threads of a warp, in a fixed order, in the first of them."""
    for bit in T.unroll(5):
        sums[i] = sums[i] + T.tvm_warp_shuffle_down(
            T.uint32(0xFFFFFFFF), sums[i], T.shift_right(16, bit), 32, 32
        )


def _add_slices(c: GemvConfig, store):
    """Return an inline function that adds up the slices of a tile: warps have lines, lanes slices.

    It writes what comes of it to C.
    """

    @T.inline
    def add(workspace, C, sums, slices, first, tiles, warp, lane, count, ldc):
        number = T.alloc_local([1], "int32")
        value = T.alloc_local([1], "float32")
        if warp < c.lines:
            sums[0] = T.float32(0)
            number[0] = lane
            while number[0] < slices:
                place: T.let = sums_of(number[0], 0, tiles, c.lines) + first + warp
                T.ptx["ld.global.cg.f32"](value[0], workspace.ptr_to([place]))
                sums[0] = sums[0] + value[0]
                number[0] = number[0] + 32
            _add_lanes(sums, 0)
            if lane == 0:
                store(C, first + warp, sums[0], count, ldc)

    return add


def _multiply(c: GemvConfig):
    """Return an inline function that adds the products of what was loaded to the sums."""

    @T.inline
    def multiply(words, factors, sums):
        for s in T.unroll(c.stages):
            for place in T.unroll(WORDS):
                for i in T.unroll(c.warp_lines):
                    word: T.let = words[(i * c.stages + s) * WORDS + place]
                    factor: T.let = factors[s * WORDS + place]
                    sums[i] = sums[i] + _low(c, word) * _low(c, factor)
                    sums[i] = sums[i] + _high(c, word) * _high(c, factor)

    @T.inline
    def multiply_rounded(words, factors, sums):
        for s in T.unroll(c.stages):
            for place in T.unroll(WORDS):
                _round(factors, s * WORDS + place)
                for i in T.unroll(c.warp_lines):
                    _round(words, (i * c.stages + s) * WORDS + place)
                    sums[i] = sums[i] + T.reinterpret(
                        "float32", words[(i * c.stages + s) * WORDS + place]
                    ) * T.reinterpret("float32", factors[s * WORDS + place])

    return multiply if c.item.bytes == 2 else multiply_rounded


@T.inline
def _round(words, at):
    T.ptx["cvt.rna.tf32.f32"](words[at], T.reinterpret("float32", words[at]))


def _low(c: GemvConfig, word):
    bits = T.cast(T.bitwise_and(word, T.uint32(0xFFFF)), "uint16")
    return T.cast(T.reinterpret(c.dtype, bits), "float32")


def _high(c: GemvConfig, word):
    bits = T.cast(T.shift_right(word, T.uint32(16)), "uint16")
    return T.cast(T.reinterpret(c.dtype, bits), "float32")
