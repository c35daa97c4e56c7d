"""Binds the C++ runtime: loads the library once and names its functions.

The only module that touches the library. There is no logic here: arguments are checked in C++, and
errors arrive as ``ValueError`` (shape, strides, layout), ``TypeError`` (dtype, device) or
``RuntimeError`` with what was expected and what was got.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import tvm_ffi

from moonpoly import config

COST_MODELS = ("full", "waves", "task")


_library = tvm_ffi.load_module(str(config.runtime_library()))


def _bind(name: str) -> Any:
    return tvm_ffi.get_global_func(f"moonpoly.{name}")


@tvm_ffi.register_object("moonpoly.KernelSet")
class KernelSetObject(tvm_ffi.Object):
    """Micro-kernels with their costs and compiled code; see :func:`KernelSet`."""


@tvm_ffi.register_object("moonpoly.LoadedPlan")
class LoadedPlan(tvm_ffi.Object):
    """A plan read from JSON, ready to run."""


@tvm_ffi.register_object("moonpoly.GpuKernelSet")
class GpuKernelSetObject(tvm_ffi.Object):
    """A GPU's micro-kernels with their costs and compiled code; see :func:`GpuKernelSet`."""


@tvm_ffi.register_object("moonpoly.GpuGraph")
class GpuGraph(tvm_ffi.Object):
    """A captured CUDA graph, to be timed by :func:`gpu_time`."""


# (manifest_json, library) -> KernelSetObject
KernelSet = _bind("KernelSet")
# (kernel_set, A, B, C, b_mode, trans_a): C (…, m, n) = A B. b_mode: 0 packed panels, 1 row-major,
# 2 transposed.
gemm = _bind("gemm")
# (B (k, n), or (n, k) if transposed; transposed, panel) -> (ceil(n / panel), k, panel)
pack_b = _bind("pack_b")
# (B (k, n) int8 or uint8, panels (ceil(n / 16), ceil(k / 4), 16, 4), sums (ceil(n / 16), 16)):
# lays B out for exact products of integers.
pack_int8 = _bind("op.pack_int8")
# (metadata_json, library): makes a model's call sites known to the intrinsics.
register_model = _bind("register_model")
# (site ids) -> nanoseconds of finding one of them
bench_site_lookup = _bind("bench_site_lookup")
# () -> threads that a plan made now may use
num_threads = _bind("num_threads")
# (count): use at most that many threads; 0 leaves it to the environment
set_num_threads = _bind("set_num_threads")
# () -> "avx2 fma …"
cpu_features = _bind("cpu_features")
# (manifest_json, {file name: code}) -> GpuKernelSetObject; without code it can only plan.
GpuKernelSet = _bind("GpuKernelSet")
# (kernel_set, A (…, m, k), B (k, n), C (…, m, n), overlap): on the current stream of their device.
gpu_gemm = _bind("gpu_gemm")
# (kernel_set, trans_b, overlap) -> the same as a function of (A, B, C) alone, B (n, k) if trans_b
gpu_product = _bind("gpu_product")
# (kernel_set, plan_json, A, B, C): the same by a given plan.
gpu_run_plan = _bind("gpu_run_plan")
# (device) -> "NVIDIA H200"; -> 132; -> 90 for compute capability 9.0
gpu_name = _bind("gpu_name")
gpu_num_sms = _bind("gpu_num_sms")
# (device) -> a stream of its own as an int
gpu_create_stream = _bind("gpu_create_stream")
# (device, stream): record what this thread enqueues on the stream; … -> GpuGraph
gpu_begin_capture = _bind("gpu_begin_capture")
gpu_end_capture = _bind("gpu_end_capture")
# (kernel_set, plan_json, [A…], [B…], [C…], calls, stream) -> GpuGraph of so many calls, which take
# the sets of operands in turn
gpu_capture_plan = _bind("gpu_capture_plan")
# (kernel_set, step, [A…], [B…], [C…], calls, batches) -> µs (float64) of the host a call of each
# batch; steps: "encode" and "look_up" a tensor map, "plan" (memoised), "call", which is gpu_gemm
gpu_bench_host = _bind("gpu_bench_host")
# () -> bytes of the first, second (both a unit's own) and last cache
cache_bytes = _bind("cache_bytes")
# () -> version of the library
version = _bind("version")

_gpu_plan = _bind("gpu_plan")
_gpu_enumerate_plans = _bind("gpu_enumerate_plans")
# (kernel_set, plan_json) -> [float…]: what the correction of a plan's cost is made of.
_gpu_launches = _bind("gpu_launches")
_gpu_time = _bind("gpu_time")
_gpu_time_plans = _bind("gpu_time_plans")
_gpu_bench_select = _bind("gpu_bench_select")
_plan = _bind("plan")
_enumerate_plans = _bind("enumerate_plans")
_load_plan = _bind("load_plan")
_run_plan = _bind("run_plan")
_bench_select = _bind("bench_select")
_time_plan = _bind("time_plan")


def plan(
    kernel_set: KernelSetObject,
    m: int,
    n: int,
    k: int,
    b_mode: int,
    threads: int,
    *,
    batch: int = 1,
    cost_model: str = "full",
) -> str:
    """Return the selector's plan for ``batch`` products of (m, k) by (k, n) as JSON.

    ``cost_model`` is ``"full"``, or ``"waves"`` or ``"task"`` to rank by one factor alone.
    ``b_mode`` may also be 3: B is gathered block by block, as a convolution's is.
    """
    model = COST_MODELS.index(cost_model)
    return str(_plan(kernel_set, batch, m, n, k, b_mode, threads, model))


def enumerate_plans(
    kernel_set: KernelSetObject,
    m: int,
    n: int,
    k: int,
    b_mode: int,
    threads: int,
    *,
    batch: int = 1,
) -> list[str]:
    """Return every plan that the search can make, as JSON."""
    plans = _enumerate_plans(kernel_set, batch, m, n, k, b_mode, threads)
    return [str(text) for text in plans]


# A plan is read once and run many times.
load_plan = lru_cache(maxsize=8192)(_load_plan)


def run_plan(
    kernel_set: KernelSetObject,
    plan_json: str,
    a: Any,
    b: Any,
    c: Any,
    b_mode: int,
    trans_a: bool = False,
) -> None:
    """Compute C = A B by a given plan, which must be for the shape of the tensors."""
    _run_plan(load_plan(kernel_set, plan_json), a, b, c, b_mode, trans_a)


def bench_select(
    kernel_set: KernelSetObject, shapes: Sequence[int], b_mode: int, threads: int, cached: bool
) -> tvm_ffi.Tensor:
    """Return the µs of each selection (float64) for the problems m, n, k, m, n, k, … given flat."""
    return _bench_select(kernel_set, tvm_ffi.Shape(shapes), b_mode, threads, cached)


def time_plan(
    kernel_set: KernelSetObject, plan_json: str, a: Any, b: Any, c: Any, b_mode: int, min_us: float
) -> float:
    """Return the median µs of running a plan as :func:`run_plan` does, without Python in between.

    At least ``min_us`` are spent; the first run is not counted.
    """
    return float(_time_plan(_load_plan(kernel_set, plan_json), a, b, c, b_mode, float(min_us)))


def gpu_plan(
    kernel_set: GpuKernelSetObject,
    m: int,
    n: int,
    k: int,
    *,
    layout: str = "nt",
    access: str = "tma",
    overlap: bool = True,
    cost_model: str = "full",
) -> str:
    """Return the selector's plan for one product on a GPU as JSON.

    ``layout`` says which dimension of A and of B is contiguous, as BLAS names it: ``"nt"`` is k in
    both. ``access``: ``"tma"`` if rows lie a multiple of 16 bytes apart, else ``"residue"``.
    ``overlap``: launches may begin before what precedes them in the stream has ended.
    """
    model = COST_MODELS.index(cost_model)
    return str(_gpu_plan(kernel_set, m, n, k, layout, access, overlap, model))


def gpu_enumerate_plans(
    kernel_set: GpuKernelSetObject,
    m: int,
    n: int,
    k: int,
    *,
    layout: str = "nt",
    access: str = "tma",
    overlap: bool = True,
) -> list[str]:
    """Return every plan that the search can make for a product on a GPU, as JSON."""
    plans = _gpu_enumerate_plans(kernel_set, m, n, k, layout, access, overlap)
    return [str(text) for text in plans]


def gpu_launches(
    kernel_set: GpuKernelSetObject,
    m: int,
    n: int,
    k: int,
    *,
    layout: str = "nt",
    access: str = "tma",
    overlap: bool = True,
) -> tvm_ffi.Tensor:
    """Return numbers of every plan of one region (float64, flat [plans][numbers]).

    They are the kernel's index, cluster, slices, whether the launch overlaps, its µs by the
    kernel's table, those predicted, its load, and the terms whose weights correct its cost.
    """
    return _gpu_launches(kernel_set, m, n, k, layout, access, overlap)


def gpu_time(
    graphs: Sequence[GpuGraph], replays: Sequence[int], rounds: int, stream: int
) -> tvm_ffi.Tensor:
    """Return µs (float64, flat [rounds][graphs]) of one run of each graph, taken in turns."""
    return _gpu_time(list(graphs), tvm_ffi.Shape(replays), rounds, stream)


def gpu_time_plans(
    kernel_set: GpuKernelSetObject,
    plans: Sequence[str],
    operands: tuple[Any, Any, Any],
    calls: int,
    rounds: int,
    stream: int,
    *,
    in_graphs: bool = False,
) -> tvm_ffi.Tensor:
    """Return µs (float64, flat [rounds][plans]) of a call by each plan.

    ``in_graphs``: a sample is a run of a graph of the calls, which takes longer to make than calls
    one by one, but leaves less time between them.
    """
    return _gpu_time_plans(kernel_set, list(plans), *operands, calls, rounds, stream, in_graphs)


def gpu_bench_select(
    kernel_set: GpuKernelSetObject, shapes: Sequence[int], layout: str, cached: bool
) -> tvm_ffi.Tensor:
    """Return the µs of each selection (float64) for the problems m, n, k, m, n, k, … given flat."""
    return _gpu_bench_select(kernel_set, tvm_ffi.Shape(shapes), layout, cached)
