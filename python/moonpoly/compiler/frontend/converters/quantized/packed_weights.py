"""MatMulNBits: weights of two to eight bits in blocks, unpacked at compile time."""

from __future__ import annotations

import numpy as np
from tvm import relax

from moonpoly.compiler.frontend.converters.attention.core import cast
from moonpoly.compiler.frontend.converters.registry import converts
from moonpoly.compiler.frontend.graph.context import Context


@converts("MatMulNBits", domain="com.microsoft")
def _matmul_n_bits(ctx: Context) -> relax.Expr:
    """Multiply by the weights as float32: the product is polymerized."""
    data = ctx.input(0)
    assert data is not None, "the checker wants a first input"
    if ctx.has_input(4):
        ctx.unsupported("g_idx, an order of the reduction")
    weight = _unpack(ctx)
    product = ctx.emit(relax.op.matmul(cast(ctx, data, "float32"), relax.const(weight)))
    bias = ctx.input(5)
    if bias is not None:
        product = ctx.emit(relax.op.add(product, cast(ctx, bias, "float32")))
    return cast(ctx, product, ctx.dtype(data))


def _unpack(ctx: Context) -> np.ndarray:
    """Return the weights as float32 (K, N)."""
    packed, scales, zeros = (ctx.constant(index) for index in (1, 2, 3))
    if packed is None or scales is None or (zeros is None and ctx.has_input(3)):
        ctx.unsupported("weights, scales and zero points must be constants")
    n, k = ctx.attrs["N"], ctx.attrs["K"]
    bits, block = ctx.attrs.get("bits", 4), ctx.attrs["block_size"]
    if bits not in (2, 4, 8):
        ctx.unsupported(f"weights of {bits} bits")
    blocks = -(-k // block)
    values = _fields(packed.reshape(n, blocks, -1), bits)[..., :block].astype(np.float32)
    if zeros is None:
        zero = np.full((n, blocks), 1 << (bits - 1), np.float32)
    elif zeros.dtype == np.uint8:
        zero = _fields(zeros.reshape(n, -1), bits)[:, :blocks].astype(np.float32)
    else:
        zero = zeros.reshape(n, blocks).astype(np.float32)
    scale = scales.reshape(n, blocks, 1).astype(np.float32)
    whole = (values - zero[..., None]) * scale
    return np.ascontiguousarray(whole.reshape(n, -1)[:, :k].T)


def _fields(packed: np.ndarray, bits: int) -> np.ndarray:
    """Take bytes apart along the last axis, lowest bits first."""
    shifts = np.arange(0, 8, bits, dtype=np.uint8)
    fields = (packed[..., None] >> shifts) & np.uint8((1 << bits) - 1)
    return fields.reshape(*packed.shape[:-1], -1)
