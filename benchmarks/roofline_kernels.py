"""Loops that do nothing but what they measure."""

from __future__ import annotations

from typing import Any

from tvm.script import tirx as T


def fma_loop(lanes: int, chains: int) -> Any:
    """Independent chains of vector FMAs in registers.

    The result takes (pes: int32, rounds: int32, sums: float32[pes * chains * lanes]).
    """
    dtype = f"float32x{lanes}"

    @T.prim_func
    def fma(pes: T.int32, rounds: T.int32, sums: T.handle) -> None:
        T.func_attr({"global_symbol": "fma"})
        count = T.int64()
        out = T.match_buffer(sums, (count,), "float32")
        for p in T.parallel(pes):
            acc = T.alloc_buffer((chains * lanes,), "float32", scope="local")
            for c in T.unroll(chains):
                acc[T.ramp(c * lanes, 1, lanes)] = out[T.ramp((p * chains + c) * lanes, 1, lanes)]
            for _ in T.serial(rounds):
                for c in T.unroll(chains):
                    acc[T.ramp(c * lanes, 1, lanes)] = T.call_llvm_pure_intrin(
                        "llvm.fma",
                        acc[T.ramp(c * lanes, 1, lanes)],
                        T.broadcast(T.float32(0.5), lanes),
                        T.broadcast(T.float32(1.0), lanes),
                        dtype=dtype,
                    )
            for c in T.unroll(chains):
                out[T.ramp((p * chains + c) * lanes, 1, lanes)] = acc[T.ramp(c * lanes, 1, lanes)]

    return fma


def read_loop(lanes: int, streams: int) -> Any:
    """Sum a block of memory per processing unit, again and again.

    The result takes (pes: int32, passes: int32, blocks: int32, source: float32[...],
    sums: float32[pes * streams * lanes]); a block is ``streams`` vectors.
    """

    @T.prim_func
    def read(
        pes: T.int32, passes: T.int32, blocks: T.int32, source: T.handle, sums: T.handle
    ) -> None:
        T.func_attr({"global_symbol": "read"})
        size = T.int64()
        count = T.int64()
        src = T.match_buffer(source, (size,), "float32")
        out = T.match_buffer(sums, (count,), "float32")
        for p in T.parallel(pes):
            acc = T.alloc_buffer((streams * lanes,), "float32", scope="local")
            for c in T.unroll(streams):
                acc[T.ramp(c * lanes, 1, lanes)] = out[T.ramp((p * streams + c) * lanes, 1, lanes)]
            for _ in T.serial(passes):
                for b in T.serial(blocks):
                    for c in T.unroll(streams):
                        acc[T.ramp(c * lanes, 1, lanes)] = (
                            acc[T.ramp(c * lanes, 1, lanes)]
                            + src[T.ramp(((p * blocks + b) * streams + c) * lanes, 1, lanes)]
                        )
            for c in T.unroll(streams):
                out[T.ramp((p * streams + c) * lanes, 1, lanes)] = acc[T.ramp(c * lanes, 1, lanes)]

    return read
