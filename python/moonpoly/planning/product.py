"""One matrix product on a GPU, on tensors of whatever framework made them."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

from moonpoly.error import InputError
from moonpoly.planning.plans import gpu_kernel_set
from moonpoly.target import Target
from moonpoly.workload import Workload


def matmul(a: Any, b: Any, out: Any, *, target: str = "cuda-sm90a", overlap: bool = False) -> None:
    """Write ``a @ b`` to ``out``, on a GPU, without copying an operand.

    The work is enqueued on the stream that is current: torch's for tensors of torch, else the one
    set by ``tvm_ffi.use_raw_stream``. A CUDA graph can capture it once a call with the same shape
    has been made.

    Parameters
    ----------
    a, b, out
        float16 or bfloat16 tensors (…, m, k), (k, n) and (…, m, n) on one GPU, of any framework
        that speaks DLPack. ``a`` and ``b`` may be transposed views and begin anywhere; the last
        dimension of ``out`` is contiguous. They are fastest with k contiguous and rows a multiple
        of 16 bytes apart, as the weight of a linear layer, transposed, is.
    overlap
        Let the launch begin before what precedes it in the stream has ended (programmatic dependent
        launch). It waits for that before it touches memory, so results are the same.

    Raises
    ------
    InputError
        If shapes, strides or dtypes don't fit.
    ArtifactError
        If there are no micro-kernels for the target and dtype.
    """
    from moonpoly import _ffi_api

    kernels = _kernels(target, str(out.dtype).rpartition(".")[2])
    try:
        _ffi_api.gpu_gemm(kernels, a, b, out, overlap)
    except (ValueError, TypeError) as err:
        raise InputError(str(err).partition("\n")[0]) from err


@lru_cache(maxsize=16)
def _kernels(target: str, dtype: str) -> Any:
    return gpu_kernel_set(Target.parse(target), Workload("gemm", dtype))
