"""One matrix product on a GPU, on tensors of whatever framework made them."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

from moonpoly.error import InputError, UnsupportedError
from moonpoly.planning.plans import gpu_kernel_set
from moonpoly.target import Target
from moonpoly.workload import Workload


def matmul(
    a: Any,
    b: Any,
    out: Any,
    *,
    target: str = "cuda-sm90a",
    overlap: bool = False,
    allow_tf32: bool = False,
) -> None:
    """Write ``a @ b`` to ``out``, on a GPU, without copying an operand.

    The work is enqueued on the stream that is current: torch's for tensors of torch, else the one
    set by ``tvm_ffi.use_raw_stream``. A CUDA graph can capture it once a call with the same shape
    has been made.

    Parameters
    ----------
    a, b, out
        Tensors (…, m, k), (k, n) and (…, m, n) on one GPU, of any framework that speaks DLPack.
        ``a`` and ``b`` are both float16, bfloat16 or float8_e4m3fn and ``out`` any of float16,
        bfloat16 and float32, rounded once from a float32 sum; or they are int8 and ``out`` is
        int32, exact but for overflow; or all are float32. ``a`` and ``b`` may be transposed views
        and begin anywhere; the last dimension of ``out`` is contiguous. They are fastest with k
        contiguous and rows a multiple of 16 bytes apart, as the weight of a linear layer,
        transposed, is.
    allow_tf32
        Needed for float32: the tensor cores have no float32, so ``a`` and ``b`` are rounded to
        tf32 (11 bits instead of 24) and multiplied with float32 sums. Refused otherwise, so that
        nobody loses digits unasked.
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

    try:
        kernels = _kernels(target, a.dtype, out.dtype, allow_tf32)
        _ffi_api.gpu_gemm(kernels, a, b, out, overlap)
    except (UnsupportedError, ValueError, TypeError) as err:
        raise InputError(str(err).partition("\n")[0]) from err


def product_function(
    target: Target, workload: Workload, *, trans_b: bool = False, overlap: bool = True
) -> str:
    """Register a product as a global function and return its name.

    A compiled Relax module calls it by ``call_dps_packed(name, [a, b], out_ty)``, in any process
    that has registered it before the module is loaded. It runs on the stream that is current for
    the device, as :func:`matmul` does, and takes any shape.

    Parameters
    ----------
    trans_b
        B is (n, k) instead of (k, n), as the weight of a linear layer is.
    overlap
        Let launches begin before what precedes them in the stream has ended.

    Raises
    ------
    ArtifactError
        If there are no micro-kernels for the target and workload.
    """
    import tvm_ffi

    from moonpoly import _ffi_api

    name = f"moonpoly.product.{target.name}.{workload.key}" + ".trans_b" * trans_b
    name += ".apart" * (not overlap)
    product = _ffi_api.gpu_product(gpu_kernel_set(target, workload), trans_b, overlap)
    tvm_ffi.register_global_func(name, product, override=True)
    return name


@lru_cache(maxsize=64)
def _kernels(target: str, item: Any, output: Any, allow_tf32: bool) -> Any:
    """Return the kernel set for a framework's own types of A and B, and of C."""
    dtype, out_dtype = (str(each).rpartition(".")[2] for each in (item, output))
    if dtype == "float32":
        if not allow_tf32:
            raise InputError(
                "a product of float32 has no micro-kernels on a GPU that keep 24 bits; pass "
                "allow_tf32=True to have A and B rounded to tf32 (11 bits), or use float16 operands"
            )
        dtype = "tf32"
    return gpu_kernel_set(Target.parse(target), Workload("gemm", dtype, out_dtype))
