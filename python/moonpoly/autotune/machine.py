"""Constants of the machine that plans depend on besides the tasks: measured, never assumed."""

from __future__ import annotations

import functools
import time
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import tvm
import tvm_ffi
from tvm.script import tirx as T

from moonpoly.autotune.candidates import Candidate
from moonpoly.autotune.measure import huge_array
from moonpoly.autotune.sample import TaskShape, task_us
from moonpoly.target import Target

_MIN_MS = 30.0
_REPEATS = 5
_ROUNDS = 7
_PACK_K, _PACK_N = 512, 512
# Source and sink together are larger than a core's own caches, where copies of regions lie.
_COPY_ITEMS = 1 << 20
# Larger than a core's own caches; all of them together fit in most shared ones.
_STREAM_ITEMS = 1 << 20
_ITEM_BYTES = 4


@dataclass(frozen=True)
class MachineConstants:
    """What a manifest's ``machine`` holds.

    Parameters
    ----------
    launch_us
        Starting work on all processing units and waiting for them.
    call_us
        One call of a micro-kernel that computes next to nothing.
    pack_us_per_kb, copy_us_per_kb
        Packing a row-major B into panels within a core's own cache, and copying through the last
        cache, on one processing unit.
    contention
        How much longer a task takes while all processing units run tasks: 1 where the memory they
        share serves all of them at full speed.
    """

    launch_us: float
    call_us: float
    pack_us_per_kb: float
    copy_us_per_kb: float
    contention: float


def measure_machine(
    target: Target, module: tvm.runtime.Module, smallest: Candidate
) -> MachineConstants:
    """Measure the constants of this machine; takes about a second.

    ``module`` exports ``smallest``, the micro-kernel with the least work in a tile.
    """
    pack = _pack_function()
    matrix = tvm_ffi.from_dlpack(np.full((_PACK_K, _PACK_N), 0.5, dtype=np.float32))
    source, sink = np.full((2, _COPY_ITEMS), 0.5, dtype=np.float32)
    kilobyte = 1024
    return MachineConstants(
        launch_us=_rounded(_launch_us(target)),
        call_us=_rounded(task_us(module, smallest, TaskShape(1, 1, 1), _MIN_MS)),
        pack_us_per_kb=_rounded(
            _wall_us(lambda: pack(matrix, False, smallest.lanes))
            / (_PACK_K * _PACK_N * _ITEM_BYTES / kilobyte)
        ),
        copy_us_per_kb=_rounded(
            _wall_us(lambda: np.copyto(sink, source)) / (_COPY_ITEMS * _ITEM_BYTES / kilobyte)
        ),
        contention=_rounded(_contention(target)),
    )


def _pack_function() -> Callable[[tvm_ffi.Tensor, bool, int], tvm_ffi.Tensor]:
    from moonpoly import _ffi_api

    return _ffi_api.pack_b


def _launch_us(target: Target) -> float:
    """Return the time of a parallel loop of one small store for each processing unit."""
    num_pes = target.num_pes

    @T.prim_func(s_tir=True)
    def launch(out: T.handle) -> None:
        T.func_attr({"global_symbol": "main", "tirx.noalias": True})
        Out = T.match_buffer(out, (num_pes, 16), "float32")
        for pe in T.parallel(num_pes):
            Out[pe, 0] = Out[pe, 0] + T.float32(1)

    module = tvm.compile(tvm.IRModule({"main": launch}), target=target.tvm_target()).mod
    out = tvm.runtime.tensor(np.zeros((num_pes, 16), dtype=np.float32))
    timer = module.time_evaluator("main", tvm.cpu(), number=2000, repeat=_REPEATS)
    # Neighbours on the machine only add: the least is what the launch itself takes.
    return float(np.min(timer(out).results)) * 1e6


def _contention(target: Target) -> float:
    """Return the time of every unit reading shared memory at once over that of one alone.

    The geometric mean with 1, the ratio of tasks whose operands are in cache: tasks are of both
    kinds, and the model has one factor.
    """
    streaming = _stream_us(target, target.num_pes) / _stream_us(target, 1)
    return float(np.sqrt(max(streaming, 1.0)))


def _stream_us(target: Target, num_units: int) -> float:
    """Return the time for ``num_units`` units to sum an array each that lies in the last cache."""
    lanes = target.vector_lanes["float32"]
    rows = _STREAM_ITEMS // lanes

    @T.prim_func(s_tir=True)
    def stream(data: T.handle, out: T.handle) -> None:
        T.func_attr({"global_symbol": "main", "tirx.noalias": True})
        Data = T.match_buffer(data, (num_units, rows // 4, 4, lanes), "float32")
        Out = T.match_buffer(out, (num_units, lanes), "float32")
        for unit in T.parallel(num_units):
            acc = T.alloc_buffer((4, lanes), "float32", scope="local")
            for chain in T.unroll(4):
                for lane in T.vectorized(lanes):
                    acc[chain, lane] = T.float32(0)
            for row in T.serial(rows // 4):
                for chain in T.unroll(4):
                    for lane in T.vectorized(lanes):
                        acc[chain, lane] = acc[chain, lane] + Data[unit, row, chain, lane]
            for lane in T.vectorized(lanes):
                Out[unit, lane] = acc[0, lane] + acc[1, lane] + acc[2, lane] + acc[3, lane]

    module = tvm.compile(tvm.IRModule({"main": stream}), target=target.tvm_target()).mod
    data = _stream_memory(target.num_pes)[: num_units * _STREAM_ITEMS]
    arguments = (
        tvm_ffi.from_dlpack(data.reshape(num_units, rows // 4, 4, lanes)),
        # A tensor of TVM's own has the alignment that code without `align` expects.
        tvm.runtime.tensor(np.zeros((num_units, lanes), dtype=np.float32)),
    )
    timer = module.time_evaluator("main", tvm.cpu(), number=20, repeat=_REPEATS)
    return float(np.min(timer(*arguments).results)) * 1e6


@functools.cache
def _stream_memory(num_units: int) -> np.ndarray:
    return huge_array(num_units * _STREAM_ITEMS)


def _wall_us(call: Callable[[], object]) -> float:
    call()
    times = []
    for _ in range(_ROUNDS):
        start = time.perf_counter()
        for _ in range(_REPEATS):
            call()
        times.append((time.perf_counter() - start) / _REPEATS)
    return float(np.median(times)) * 1e6


def _rounded(value: float) -> float:
    return float(f"{value:.4g}")
