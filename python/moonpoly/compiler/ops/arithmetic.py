"""Arithmetic in which a careless instruction traps, or rounds another way than ONNX wants."""

from __future__ import annotations

from collections.abc import Callable

from tvm import te, tirx, topi

Binary = Callable[[tirx.Expr, tirx.Expr], tirx.Expr]


def broadcast(function: Binary, left: te.Tensor, right: te.Tensor) -> te.Tensor:
    """Apply ``function`` element by element, with NumPy's broadcasting."""
    # topi works out the shape of the result.
    shape = topi.add(left, right).shape
    rank = len(shape)

    def element(tensor: te.Tensor, indices: tuple[tirx.Expr, ...]) -> tirx.Expr:
        own = indices[rank - len(tensor.shape) :]
        places = []
        for index, extent in zip(own, tensor.shape, strict=True):
            is_one = isinstance(extent, tirx.IntImm) and int(extent) == 1
            places.append(tirx.const(0, "int64") if is_one else index)
        return tensor(*places)

    return te.compute(shape, lambda *i: function(element(left, i), element(right, i)))


def _is_signed(value: tirx.Expr) -> bool:
    return str(value.ty.dtype).startswith("int")


def _safe_divisor(divisor: tirx.Expr) -> tirx.Expr:
    """Return a divisor that no division instruction traps at."""
    dtype = str(divisor.ty.dtype)
    one = tirx.const(1, dtype)
    bad = divisor.equal(tirx.const(0, dtype))
    if _is_signed(divisor):
        # The smallest integer by -1 overflows, which x86 traps as it does a division by zero.
        bad = tirx.any(bad, divisor.equal(tirx.const(-1, dtype)))
    return tirx.Select(bad, one, divisor)


def integer_quotient(left: tirx.Expr, right: tirx.Expr) -> tirx.Expr:
    """Return the quotient rounded to zero; of a division by zero, the dividend."""
    quotient = tirx.truncdiv(left, _safe_divisor(right))
    if not _is_signed(left):
        return quotient
    dtype = str(left.ty.dtype)
    by_minus_one = right.equal(tirx.const(-1, dtype))
    return tirx.Select(by_minus_one, tirx.const(0, dtype) - left, quotient)


def remainder(left: tirx.Expr, right: tirx.Expr) -> tirx.Expr:
    """Return C's remainder of integers: of the dividend's sign; of a division by zero, zero."""
    return tirx.truncmod(left, _safe_divisor(right))


def modulo(left: tirx.Expr, right: tirx.Expr) -> tirx.Expr:
    """Return Python's remainder of integers: of the divisor's sign."""
    rest = remainder(left, right)
    if not _is_signed(left):
        return rest
    zero = tirx.const(0, str(left.ty.dtype))
    apart = tirx.any(tirx.all(rest < zero, right > zero), tirx.all(rest > zero, right < zero))
    return tirx.Select(apart, rest + right, rest)


def float_power(base: tirx.Expr, exponent: tirx.Expr) -> tirx.Expr:
    """Return a power of numbers that are not both of one floating-point type, in float64.

    The result has the base's type, rounded to the nearest integer where that is one.
    """
    wide = tirx.pow(tirx.Cast("float64", base), tirx.Cast("float64", exponent))
    dtype = str(base.ty.dtype)
    both_integer = "int" in dtype and "int" in str(exponent.ty.dtype)
    return tirx.Cast(dtype, tirx.round(wide) if both_integer else wide)


def shift_left(left: tirx.Expr, right: tirx.Expr) -> tirx.Expr:
    """Return ``left`` moved up; zero if by as many bits as it has or more, or fewer than none."""
    inside, by = _bounded_shift(left, right)
    return tirx.Select(inside, tirx.shift_left(left, by), tirx.const(0, str(left.ty.dtype)))


def shift_right(left: tirx.Expr, right: tirx.Expr) -> tirx.Expr:
    """Return ``left`` moved down, its sign kept; nothing but the sign if by too many bits."""
    inside, by = _bounded_shift(left, right)
    dtype = str(left.ty.dtype)
    zero = tirx.const(0, dtype)
    emptied = zero
    if _is_signed(left):
        emptied = tirx.Select(left < zero, tirx.const(-1, dtype), zero)
    return tirx.Select(inside, tirx.shift_right(left, by), emptied)


def _bounded_shift(left: tirx.Expr, right: tirx.Expr) -> tuple[tirx.Expr, tirx.Expr]:
    """Return whether a shift is by less than the width, and a number of bits that is."""
    dtype = str(right.ty.dtype)
    zero = tirx.const(0, dtype)
    inside = right < tirx.const(int(left.ty.dtype.bits), dtype)
    if _is_signed(right):
        inside = tirx.all(inside, right >= zero)
    return inside, tirx.Select(inside, right, zero)
