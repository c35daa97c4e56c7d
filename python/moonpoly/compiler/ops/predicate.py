"""Questions about floating-point numbers, asked of their bits: no simplifier folds those."""

from __future__ import annotations

from tvm import te, tirx

# Bits of an infinity, which has the largest exponent and no mantissa, without its sign.
_INFINITY = {"float16": 0x7C00, "bfloat16": 0x7F80, "float32": 0x7F800000, "float64": 0x7FF << 52}


def _bits(value: tirx.Expr) -> tuple[tirx.Expr, tirx.Expr, tirx.Expr]:
    """Return the bits without the sign, those of an infinity, and the sign's."""
    dtype = str(value.ty.dtype)
    width = int(value.ty.dtype.bits)
    integer = f"int{width}"
    bits = tirx.reinterpret(integer, value)
    magnitude = tirx.bitwise_and(bits, tirx.const((1 << (width - 1)) - 1, integer))
    return magnitude, tirx.const(_INFINITY[dtype], integer), bits


def is_nan(x: te.Tensor) -> te.Tensor:
    """Return whether each element is not a number."""

    def compute(*i: tirx.Expr) -> tirx.Expr:
        magnitude, infinity, _ = _bits(x(*i))
        return magnitude > infinity

    return te.compute(x.shape, compute, name="is_nan")


def is_infinite(x: te.Tensor, positive: bool, negative: bool) -> te.Tensor:
    """Return whether each element is an infinity of one of the signs asked for."""

    def compute(*i: tirx.Expr) -> tirx.Expr:
        magnitude, infinity, bits = _bits(x(*i))
        result = magnitude.equal(infinity)
        zero = tirx.const(0, str(bits.ty.dtype))
        if not positive:
            result = tirx.all(result, bits < zero)
        if not negative:
            result = tirx.all(result, bits >= zero)
        return result if positive or negative else tirx.const(False, "bool")

    return te.compute(x.shape, compute, name="is_infinite")


def reinterpret(x: te.Tensor, dtype: str) -> te.Tensor:
    """Return the bits of ``x`` as another type of the same width."""
    if "bool" in (dtype, str(x.dtype)):
        # A bool is a byte of 0 or 1, whatever the code generator makes of its type.
        return te.compute(x.shape, lambda *i: tirx.Cast(dtype, x(*i)), name="reinterpret")
    return te.compute(x.shape, lambda *i: tirx.reinterpret(dtype, x(*i)), name="reinterpret")
